// Multiples of one point by windows: Brickell, Gordon, McCurley, Wilson, "Fast exponentiation with precomputation",
// EUROCRYPT '92. Row k of the table holds d * 2^(bits k) * P for d = 1 .. 2^bits - 1, so that a multiple is one mixed
// addition for each window whose digit is not 0. Results are made affine together, with one inversion for each block
// (Montgomery's trick: 3M a point beside the 4M + 1S of the change of coordinates).
#include <algorithm>
#include <vector>

#include "abi.hpp"
#include "curve.hpp"
#include "pool.hpp"

namespace cuzkops {
namespace {

constexpr unsigned SCALAR_BITS = 255; // scalars are below r
constexpr unsigned MAX_BITS = 16;
constexpr std::size_t BLOCK = 256; // points that share an inversion

std::size_t n_windows(unsigned bits) { return (SCALAR_BITS + bits - 1) / bits; }

// Bits [from, from + count) of 4 limbs; bits above 256 are 0.
std::size_t window(const std::uint64_t* scalar, unsigned from, unsigned count) {
    const unsigned word = from / 64, shift = from % 64;
    std::uint64_t bits = scalar[word] >> shift;
    if (shift != 0 && word < 3) bits |= scalar[word + 1] << (64 - shift);
    return static_cast<std::size_t>(bits & ((std::uint64_t{1} << count) - 1));
}

// Writes sums[0 .. n) as affine points.
template <class F> void normalise(const Xyzz<F>* sums, std::size_t n, std::uint64_t* out) {
    F products[BLOCK]; // products[i] = zzz of all finite sums up to i
    F all = F::one();
    for (std::size_t i = 0; i < n; i++) {
        if (!sums[i].is_infinity()) all = all * sums[i].zzz;
        products[i] = all;
    }
    F inverse = all.inverse();
    for (std::size_t i = n; i-- > 0;) {
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

// Calls body(begin, end) on blocks of [0, n), each on whichever thread is free.
template <class Body> void over_blocks(std::size_t n, int threads, Body body) {
    over_tasks((n + BLOCK - 1) / BLOCK, threads,
               [&](std::size_t block, int) { body(block * BLOCK, std::min(n, (block + 1) * BLOCK)); });
}

template <class F> int fill_table(const std::uint64_t* point, unsigned bits, int threads, std::uint64_t* table) {
    if (threads < 1 || bits < 1 || bits > MAX_BITS) return BAD_ARGUMENT;
    constexpr std::size_t LIMBS = Affine<F>::LIMBS;
    const std::size_t row = (std::size_t{1} << bits) - 1, windows = n_windows(bits);
    std::vector<std::uint64_t> firsts(windows * LIMBS); // 2^(bits k) * P
    Xyzz<F> power = Xyzz<F>::from(Affine<F>::load(point));
    for (std::size_t k = 0; k < windows; k++) {
        power.to_affine().store(&firsts[k * LIMBS]);
        for (unsigned i = 0; i < bits; i++) power = power.doubled();
    }
    over_tasks(windows, threads, [&](std::size_t k, int) {
        const Affine<F> first = Affine<F>::load(&firsts[k * LIMBS]);
        Xyzz<F> sum = Xyzz<F>::infinity();
        std::vector<Xyzz<F>> sums(std::min(row, BLOCK));
        for (std::size_t begin = 0; begin < row; begin += BLOCK) {
            const std::size_t n = std::min(row - begin, BLOCK);
            for (std::size_t i = 0; i < n; i++) {
                sum.add(first);
                sums[i] = sum;
            }
            normalise(sums.data(), n, table + (k * row + begin) * LIMBS);
        }
    });
    return OK;
}

template <class F>
int multiples(const std::uint64_t* table, unsigned bits, const std::uint64_t* scalars, std::size_t n, int threads,
              std::uint64_t* out) {
    if (threads < 1 || bits < 1 || bits > MAX_BITS) return BAD_ARGUMENT;
    constexpr std::size_t LIMBS = Affine<F>::LIMBS;
    const std::size_t row = (std::size_t{1} << bits) - 1, windows = n_windows(bits);
    over_blocks(n, threads, [&](std::size_t begin, std::size_t end) {
        std::vector<Xyzz<F>> sums(end - begin, Xyzz<F>::infinity());
        for (std::size_t i = begin; i < end; i++) {
            for (std::size_t k = 0; k < windows; k++) {
                const std::size_t d = window(scalars + 4 * i, static_cast<unsigned>(k) * bits, bits);
                if (d != 0) sums[i - begin].add(Affine<F>::load(table + (k * row + d - 1) * LIMBS));
            }
        }
        normalise(sums.data(), sums.size(), out + begin * LIMBS);
    });
    return OK;
}

} // namespace
} // namespace cuzkops

using namespace cuzkops;

// table: ceil(255 / bits) rows of 2^bits - 1 affine points, made from one affine point.
CUZKOPS_EXPORT int cuzkops_fixed_base_table_g1(int leaf, const std::uint64_t* point, unsigned bits, int threads,
                                               std::uint64_t* table) {
    return with_leaf(leaf, [&](auto chosen) { return fill_table<FpOf<decltype(chosen)>>(point, bits, threads, table); });
}
CUZKOPS_EXPORT int cuzkops_fixed_base_table_g2(int leaf, const std::uint64_t* point, unsigned bits, int threads,
                                               std::uint64_t* table) {
    return with_leaf(leaf, [&](auto chosen) { return fill_table<Fp2<FpOf<decltype(chosen)>>>(point, bits, threads, table); });
}

// out[i] = scalars[i] * P: scalars plain and below r, 4 limbs each; out is n affine points.
CUZKOPS_EXPORT int cuzkops_fixed_base_g1(int leaf, const std::uint64_t* table, unsigned bits, const std::uint64_t* scalars,
                                         std::size_t n, int threads, std::uint64_t* out) {
    return with_leaf(leaf, [&](auto chosen) { return multiples<FpOf<decltype(chosen)>>(table, bits, scalars, n, threads, out); });
}
CUZKOPS_EXPORT int cuzkops_fixed_base_g2(int leaf, const std::uint64_t* table, unsigned bits, const std::uint64_t* scalars,
                                         std::size_t n, int threads, std::uint64_t* out) {
    return with_leaf(leaf, [&](auto chosen) { return multiples<Fp2<FpOf<decltype(chosen)>>>(table, bits, scalars, n, threads, out); });
}
