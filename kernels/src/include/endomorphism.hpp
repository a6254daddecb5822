// Maps that multiply points of the order-r subgroup by z^2 (G1) and by |z| (G2), z the parameter of the curve, and the
// split of a scalar that goes with them. Gallant, Lambert, Vanstone, "Faster point multiplication on elliptic curves
// with efficient endomorphisms", 2001; Galbraith, Scott, "Exponentiation in pairing-friendly groups using
// homomorphisms", 2008. The constants come from kernels/gen/constants.py.
#pragma once
#include "curve.hpp"
#include "inverse.hpp"

namespace cuzkops {

// A quotient and the remainder that is nearest to zero: value = quotient * divisor + remainder.
struct SignedDivision {
    i128 quotient, remainder;
};

// Of a value below 2^254 by z^2, z^2 / 2 at most in the remainder. The estimate of the quotient (Barrett, 1986) is at
// most 2 too small.
CUZKOPS_FN inline SignedDivision divide_by_z2(const std::uint64_t* value) {
    const u128 divisor = static_cast<u128>(Constants::z2(1)) << 64 | Constants::z2(0);
    const std::uint64_t high[2] = {value[1] >> 63 | value[2] << 1, value[2] >> 63 | value[3] << 1}; // value >> 127
    const std::uint64_t factor[2] = {Constants::z2_barrett(0), Constants::z2_barrett(1)};
    const u128 low = static_cast<u128>(high[0]) * factor[0];
    const u128 mid_a = static_cast<u128>(high[0]) * factor[1] + static_cast<std::uint64_t>(low >> 64);
    const u128 mid_b = static_cast<u128>(high[1]) * factor[0] + static_cast<std::uint64_t>(mid_a);
    u128 quotient = static_cast<u128>(high[1]) * factor[1] + static_cast<std::uint64_t>(mid_a >> 64) +
                    static_cast<std::uint64_t>(mid_b >> 64);
    // The remainder is below 4 z^2 < 2^130: its low 128 bits and the bit above are enough.
    const std::uint64_t q[2] = {static_cast<std::uint64_t>(quotient), static_cast<std::uint64_t>(quotient >> 64)};
    const std::uint64_t d[2] = {Constants::z2(0), Constants::z2(1)};
    std::uint64_t product[4] = {};
    for (int i = 0; i < 2; i++) {
        std::uint64_t carry = 0;
        for (int j = 0; j < 2; j++) {
            const u128 sum = static_cast<u128>(q[i]) * d[j] + product[i + j] + carry;
            product[i + j] = static_cast<std::uint64_t>(sum);
            carry = static_cast<std::uint64_t>(sum >> 64);
        }
        product[i + 2] = carry;
    }
    std::uint64_t rest[4];
    sub_limbs<4>(rest, value, product);
    u128 remainder = static_cast<u128>(rest[1]) << 64 | rest[0];
    std::uint64_t above = rest[2];
    while (above != 0 || remainder >= divisor) {
        above -= remainder < divisor;
        remainder -= divisor;
        quotient++;
    }
    if (remainder > divisor / 2) return {static_cast<i128>(quotient + 1), static_cast<i128>(remainder - divisor)};
    return {static_cast<i128>(quotient), static_cast<i128>(remainder)};
}

// Of a value in (-2^127, 2^127) by |z|. In words of 64 bits: nvcc 13.0 crashes over the same in 128-bit arithmetic.
CUZKOPS_FN inline SignedDivision divide_by_z(i128 value) {
    const bool negative = value < 0;
    const u128 magnitude = negative ? static_cast<u128>(-value) : static_cast<u128>(value);
    const std::uint64_t high = static_cast<std::uint64_t>(magnitude >> 63);
    std::uint64_t quotient = static_cast<std::uint64_t>(static_cast<u128>(high) * Constants::Z_BARRETT >> 64);
    const u128 product = static_cast<u128>(quotient) * Constants::Z;
    std::uint64_t low = static_cast<std::uint64_t>(magnitude) - static_cast<std::uint64_t>(product);
    std::uint64_t above = static_cast<std::uint64_t>(magnitude >> 64) - static_cast<std::uint64_t>(product >> 64) -
                          (static_cast<std::uint64_t>(magnitude) < static_cast<std::uint64_t>(product));
    while (above != 0 || low >= Constants::Z) { // the estimate is at most 2 too small
        above -= low < Constants::Z;
        low -= Constants::Z;
        quotient++;
    }
    const bool up = low > Constants::Z / 2;
    const std::int64_t rest = static_cast<std::int64_t>(up ? low - Constants::Z : low);
    quotient += up;
    const i128 sum = static_cast<i128>(quotient);
    return {negative ? -sum : sum, static_cast<i128>(negative ? -rest : rest)};
}

// scalar mod r as a number in [-r/2, r/2]: its magnitude, and whether it is negative. Any 4 limbs are taken.
CUZKOPS_FN inline bool centre(std::uint64_t* magnitude, const std::uint64_t* scalar) {
    std::uint64_t r[4], other[4];
    for (int j = 0; j < 4; j++) r[j] = FrModulus::modulus(j);
    for (int j = 0; j < 4; j++) magnitude[j] = scalar[j];
    while (sub_limbs<4>(other, magnitude, r) == 0) // twice at most: 2^256 < 3 r
        for (int j = 0; j < 4; j++) magnitude[j] = other[j];
    sub_limbs<4>(other, r, magnitude);
    std::uint64_t difference[4];
    if (sub_limbs<4>(difference, other, magnitude) == 0) return false; // magnitude <= r - magnitude
    for (int j = 0; j < 4; j++) magnitude[j] = other[j];
    return true;
}

// IMAGES multiples of a point that cost almost nothing, and the split of a scalar over them into numbers whose
// magnitude is below 0.83 * 2^(BITS - 1).
template <class F> struct Endomorphism;

// G1: P and z^2 P = (beta x, -y); scalar = k[0] + k[1] z^2. Cost of the images: 1M.
template <class M, class L> struct Endomorphism<Field<M, L>> {
    using F = Field<M, L>;
    static constexpr int IMAGES = 2;
    static constexpr unsigned BITS = 128;

    CUZKOPS_FN static void split(i128* k, const std::uint64_t* scalar) {
        std::uint64_t magnitude[4];
        const bool negative = centre(magnitude, scalar);
        const SignedDivision by_z2 = divide_by_z2(magnitude);
        k[0] = negative ? -by_z2.remainder : by_z2.remainder;
        k[1] = negative ? -by_z2.quotient : by_z2.quotient;
    }
    CUZKOPS_FN static Affine<F> image(const Affine<F>& p, int) { return {p.x * F::constant(Constants::g1_beta), p.y.negated()}; }
};

// G2: P, |z| P, z^2 P and |z|^3 P. Cost of the images: 10M of Fp and 1M of Fp2.
template <class Fp> struct Endomorphism<Fp2<Fp>> {
    using F = Fp2<Fp>;
    static constexpr int IMAGES = 4;
    static constexpr unsigned BITS = 64;

    CUZKOPS_FN static void split(i128* k, const std::uint64_t* scalar) {
        i128 halves[2];
        Endomorphism<Fp>::split(halves, scalar);
        for (int i = 0; i < 2; i++) {
            const SignedDivision by_z = divide_by_z(halves[i]);
            k[2 * i] = by_z.remainder;
            k[2 * i + 1] = by_z.quotient;
        }
    }
    // number: 1, 2 or 3
    CUZKOPS_FN static Affine<F> image(const Affine<F>& p, int number) {
        Affine<F> out = p;
        if (number & 1) { // |z| (x, y) = (conj(x) cx, conj(y) cy), and cx is a multiple of u
            const Fp cx = Fp::constant(Constants::psi_x_c1);
            const F cy = {Fp::constant(Constants::psi_y_c0), Fp::constant(Constants::psi_y_c1)};
            out = {{out.x.c1 * cx, out.x.c0 * cx}, out.y.conjugate() * cy};
        }
        if (number & 2) out = {out.x * Fp::constant(Constants::g2_beta), out.y.negated()};
        return out;
    }
};

} // namespace cuzkops
