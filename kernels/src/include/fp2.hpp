// Fp2 = Fp[u] / (u^2 + 1), elements c0 + c1 u, over any leaf.
#pragma once
#include "field.hpp"

// A product in Fp2 is about a thousand instructions of a device: kernels that are no bottleneck call it, or they would take
// minutes to compile. Such a file defines CUZKOPS_CALL_FP2 first.
#if defined(__CUDACC__) && defined(CUZKOPS_CALL_FP2)
#define CUZKOPS_FP2_FN CUZKOPS_RARE_FN
#define CUZKOPS_FP2_ARGUMENT Fp2
#else
#define CUZKOPS_FP2_FN CUZKOPS_FN
#define CUZKOPS_FP2_ARGUMENT const Fp2&
#endif

namespace cuzkops {

template <class Fp> struct Fp2 {
    using M = typename Fp::Modulus;
    using Leaf = typename Fp::Leaf;
    using Base = Fp;
    static constexpr int LIMBS = 2 * Fp::LIMBS;
    Fp c0, c1;

    CUZKOPS_FN static Fp2 load(const std::uint64_t* words) { return {Fp::load(words), Fp::load(words + Fp::LIMBS)}; }
    CUZKOPS_FN void store(std::uint64_t* words) const {
        c0.store(words);
        c1.store(words + Fp::LIMBS);
    }
    CUZKOPS_FN static Fp2 zero() { return {Fp::zero(), Fp::zero()}; }
    CUZKOPS_FN static Fp2 one() { return {Fp::one(), Fp::zero()}; }
    CUZKOPS_FN bool is_zero() const { return c0.is_zero() && c1.is_zero(); }
    CUZKOPS_FN bool is_canonical() const { return c0.is_canonical() && c1.is_canonical(); }
    CUZKOPS_FN friend bool operator==(const Fp2& a, const Fp2& b) { return a.c0 == b.c0 && a.c1 == b.c1; }
    CUZKOPS_FN friend bool operator!=(const Fp2& a, const Fp2& b) { return !(a == b); }
    CUZKOPS_FN friend Fp2 operator+(const Fp2& a, const Fp2& b) { return {a.c0 + b.c0, a.c1 + b.c1}; }
    CUZKOPS_FN friend Fp2 operator-(const Fp2& a, const Fp2& b) { return {a.c0 - b.c0, a.c1 - b.c1}; }

    // Products of Fp before their reduction: c0 and c1 of a product in Fp2.
    struct Wide {
        std::uint64_t c0[2 * Fp::LIMBS], c1[2 * Fp::LIMBS];

        CUZKOPS_FN Fp2 reduced() const {
            Fp2 out;
            Leaf::template reduce<M>(out.c0.limb, c0);
            Leaf::template reduce<M>(out.c1.limb, c1);
            return out;
        }
    };

    // 3 products of Fp: Karatsuba, to be reduced once for each coefficient. Aranha, Karabina, Longa, Gebotys, Lopez,
    // "Faster explicit formulas for computing pairings over ordinary curves", 2011, algorithm 2. The sums of two
    // coefficients stay unreduced below 2 p < 2^382; p^2 + p^2 < p 2^384 is what a reduction takes.
    CUZKOPS_FN static Wide multiply_wide(const Fp2& a, const Fp2& b) {
        constexpr int N = Fp::LIMBS;
        std::uint64_t sum_a[N], sum_b[N], high[2 * N];
        Wide out;
        add_limbs<N>(sum_a, a.c0.limb, a.c1.limb);
        add_limbs<N>(sum_b, b.c0.limb, b.c1.limb);
        Leaf::template multiply_wide<M>(out.c1, sum_a, sum_b);
        Leaf::template multiply_wide<M>(out.c0, a.c0.limb, b.c0.limb);
        Leaf::template multiply_wide<M>(high, a.c1.limb, b.c1.limb);
        Leaf::template subtract_wide<M>(out.c1, out.c1, out.c0); // never negative: a0 b1 + a1 b0 + a1 b1
        Leaf::template subtract_wide<M>(out.c1, out.c1, high);
        Leaf::template subtract_wide<M>(out.c0, out.c0, high);
        return out;
    }
    CUZKOPS_FN friend Fp2 operator*(const Fp2& a, const Fp2& b) { return product(a, b); }
    CUZKOPS_FP2_FN static Fp2 product(CUZKOPS_FP2_ARGUMENT a, CUZKOPS_FP2_ARGUMENT b) {
        if constexpr (Fp::SUMS_PRODUCTS) {
            // 4 products and 2 reductions: a sixth more than by Karatsuba, but what is at work fits the registers of a
            // device, which is worth more (docs/decisions/0003-msm.md). Both coefficients by the same code, which has to
            // fit the instruction cache.
            const Fp minus_c1 = b.c1.subtracted_from_bound();
            Fp2 out = zero();
            CUZKOPS_ROLLED for (int k = 0; k < 2; k++) {
                const Fp with_c0 = Fp::choose(k == 0, b.c0, b.c1), with_c1 = Fp::choose(k == 0, minus_c1, b.c0);
                out.c0 = out.c1;
                Leaf::template sum_of_products<M, 2>(out.c1.limb, {a.c0.limb, a.c1.limb}, {with_c0.limb, with_c1.limb});
            }
            return out;
        } else {
            return multiply_wide(a, b).reduced();
        }
    }
    // a b - c d, with 2 reductions of Fp.
    CUZKOPS_FP2_FN static Fp2 difference_of_products(CUZKOPS_FP2_ARGUMENT a, CUZKOPS_FP2_ARGUMENT b, CUZKOPS_FP2_ARGUMENT c,
                                                     CUZKOPS_FP2_ARGUMENT d) {
        if constexpr (Fp::SUMS_PRODUCTS) {
            const Fp minus_b1 = b.c1.subtracted_from_bound(), minus_d0 = d.c0.subtracted_from_bound();
            const Fp minus_d1 = d.c1.subtracted_from_bound();
            Fp2 out = zero();
            CUZKOPS_ROLLED for (int k = 0; k < 2; k++) {
                const Fp a0 = Fp::choose(k == 0, b.c0, b.c1), a1 = Fp::choose(k == 0, minus_b1, b.c0);
                const Fp c0 = Fp::choose(k == 0, minus_d0, minus_d1), c1 = Fp::choose(k == 0, d.c1, minus_d0);
                out.c0 = out.c1;
                Leaf::template sum_of_products<M, 4>(out.c1.limb, {a.c0.limb, a.c1.limb, c.c0.limb, c.c1.limb},
                                                     {a0.limb, a1.limb, c0.limb, c1.limb});
            }
            return out;
        } else {
            return difference_by_wide(a, b, c, d);
        }
    }
    CUZKOPS_FN static Fp2 difference_by_wide(const Fp2& a, const Fp2& b, const Fp2& c, const Fp2& d) {
        Wide out = multiply_wide(a, b);
        const Wide other = multiply_wide(c, d);
        Leaf::template subtract_wide<M>(out.c0, out.c0, other.c0);
        Leaf::template subtract_wide<M>(out.c1, out.c1, other.c1);
        return out.reduced();
    }
    CUZKOPS_FN friend Fp2 operator*(const Fp2& a, const Fp& b) { return {a.c0 * b, a.c1 * b}; }
    // 2 products of Fp: (c0 + c1)(c0 - c1) + 2 c0 c1 u.
    CUZKOPS_FN Fp2 square() const { return squared(*this); }
    CUZKOPS_FP2_FN static Fp2 squared(CUZKOPS_FP2_ARGUMENT a) {
        if constexpr (Fp::SUMS_PRODUCTS) {
            const Fp sum = a.c0 + a.c1, difference = a.c0 - a.c1;
            Fp2 out = zero();
            CUZKOPS_ROLLED for (int k = 0; k < 2; k++) {
                out.c0 = out.c1;
                out.c1 = Fp::choose(k == 0, sum, a.c0) * Fp::choose(k == 0, difference, a.c1);
            }
            return {out.c0, out.c1.doubled()};
        } else {
            return {(a.c0 + a.c1) * (a.c0 - a.c1), (a.c0 * a.c1).doubled()};
        }
    }
    CUZKOPS_FN static Fp2 choose(bool first, const Fp2& a, const Fp2& b) {
        return {Fp::choose(first, a.c0, b.c0), Fp::choose(first, a.c1, b.c1)};
    }
    CUZKOPS_FN Fp2 doubled() const { return *this + *this; }
    CUZKOPS_FN Fp2 negated() const { return zero() - *this; }
    CUZKOPS_FN Fp2 conjugate() const { return {c0, c1.negated()}; }
    // Conjugate over norm; the inverse of 0 is 0.
    CUZKOPS_FN Fp2 inverse() const {
        const Fp scale = (c0.square() + c1.square()).inverse();
        return {c0 * scale, c1.negated() * scale};
    }
    CUZKOPS_FN Fp2 inverse_by_fermat() const {
        const Fp scale = (c0.square() + c1.square()).inverse_by_fermat();
        return {c0 * scale, c1.negated() * scale};
    }
    CUZKOPS_FN Fp2 to_montgomery() const { return {c0.to_montgomery(), c1.to_montgomery()}; }
    CUZKOPS_FN Fp2 to_plain() const { return {c0.to_plain(), c1.to_plain()}; }
};

} // namespace cuzkops
