// Multiples of one point by windows, for host and device: Brickell, Gordon, McCurley, Wilson, "Fast exponentiation with
// precomputation", EUROCRYPT '92. Row k of the table holds d * 2^(bits k) * P for d = 1 .. 2^bits - 1, so that a multiple
// is one mixed addition for each window whose digit is not 0. Results are made affine together, with one inversion for
// each block of points (Montgomery's trick: 3M a point beside the 4M + 1S of the change of coordinates).
#pragma once
#include <cstddef>

#include "curve.hpp"

namespace cuzkops {

inline constexpr unsigned FIXED_BASE_SCALAR_BITS = 255; // scalars are below r

// Writes sums[0 .. n) as affine points; n is at most BLOCK.
template <class F, int BLOCK> CUZKOPS_FN void normalise(const Xyzz<F>* sums, int n, std::uint64_t* out) {
    F products[BLOCK]; // products[i] = zzz of all finite sums up to i
    F all = F::one();
    for (int i = 0; i < n; i++) {
        if (!sums[i].is_infinity()) all = all * sums[i].zzz;
        products[i] = all;
    }
    F inverse = all.inverse();
    for (int i = n; i-- > 0;) {
        Affine<F> point = Affine<F>::infinity();
        if (!sums[i].is_infinity()) {
            const F inverse_zzz = i == 0 ? inverse : inverse * products[i - 1];
            inverse = inverse * sums[i].zzz;
            const F inverse_z = sums[i].zz * inverse_zzz;
            point = {sums[i].x * inverse_z.square(), sums[i].y * inverse_zzz};
        }
        point.store(out + Affine<F>::LIMBS * i);
    }
}

template <class F> struct FixedBase {
    const std::uint64_t* table; // windows() rows of row() affine points
    unsigned bits;

    CUZKOPS_FN unsigned windows() const { return (FIXED_BASE_SCALAR_BITS + bits - 1) / bits; }
    CUZKOPS_FN std::size_t row() const { return (std::size_t{1} << bits) - 1; }

    // Digit k of a scalar of 4 limbs; bits above 256 are 0.
    CUZKOPS_FN std::size_t digit(const std::uint64_t* scalar, unsigned k) const {
        const unsigned word = bits * k / 64, shift = bits * k % 64;
        std::uint64_t found = scalar[word] >> shift;
        if (shift != 0 && word < 3) found |= scalar[word + 1] << (64 - shift);
        return static_cast<std::size_t>(found & row());
    }
    CUZKOPS_FN Xyzz<F> multiple(const std::uint64_t* scalar) const {
        Xyzz<F> sum = Xyzz<F>::infinity();
        for (unsigned k = 0; k < windows(); k++) {
            const std::size_t d = digit(scalar, k);
            if (d != 0) sum.add(Affine<F>::load(table + (k * row() + d - 1) * Affine<F>::LIMBS));
        }
        return sum;
    }
    // out[i] = scalars[i] * P as affine points, for the block of points from `begin` on; sums: room for BLOCK of them.
    template <int BLOCK>
    CUZKOPS_FN void multiples(const std::uint64_t* scalars, std::size_t begin, std::size_t n, Xyzz<F>* sums,
                              std::uint64_t* out) const {
        const int count = n - begin < BLOCK ? static_cast<int>(n - begin) : BLOCK;
        for (int i = 0; i < count; i++) sums[i] = multiple(scalars + 4 * (begin + i));
        normalise<F, BLOCK>(sums, count, out + begin * Affine<F>::LIMBS);
    }
};

} // namespace cuzkops
