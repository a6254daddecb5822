// Fp2 = Fp[u] / (u^2 + 1), elements c0 + c1 u.
#pragma once
#include "field.hpp"

namespace cuzkops {

struct Fp2 {
    static constexpr int LIMBS = 2 * Fp::LIMBS;
    Fp c0, c1;

    static Fp2 load(const std::uint64_t* words) { return {Fp::load(words), Fp::load(words + Fp::LIMBS)}; }
    void store(std::uint64_t* words) const {
        c0.store(words);
        c1.store(words + Fp::LIMBS);
    }
    static Fp2 zero() { return {Fp::zero(), Fp::zero()}; }
    static Fp2 one() { return {Fp::one(), Fp::zero()}; }
    bool is_zero() const { return c0.is_zero() && c1.is_zero(); }
    bool is_canonical() const { return c0.is_canonical() && c1.is_canonical(); }
    friend bool operator==(const Fp2& a, const Fp2& b) { return a.c0 == b.c0 && a.c1 == b.c1; }
    friend bool operator!=(const Fp2& a, const Fp2& b) { return !(a == b); }
    friend Fp2 operator+(const Fp2& a, const Fp2& b) { return {a.c0 + b.c0, a.c1 + b.c1}; }
    friend Fp2 operator-(const Fp2& a, const Fp2& b) { return {a.c0 - b.c0, a.c1 - b.c1}; }
    // 3 products of Fp (Karatsuba).
    friend Fp2 operator*(const Fp2& a, const Fp2& b) {
        const Fp low = a.c0 * b.c0;
        const Fp high = a.c1 * b.c1;
        return {low - high, (a.c0 + a.c1) * (b.c0 + b.c1) - low - high};
    }
    // 2 products of Fp: (c0 + c1)(c0 - c1) + 2 c0 c1 u.
    Fp2 square() const { return {(c0 + c1) * (c0 - c1), (c0 * c1).doubled()}; }
    Fp2 doubled() const { return *this + *this; }
    Fp2 negated() const { return zero() - *this; }
    // Conjugate over norm; the inverse of 0 is 0.
    Fp2 inverse() const {
        const Fp scale = (c0.square() + c1.square()).inverse();
        return {c0 * scale, c1.negated() * scale};
    }
    Fp2 to_montgomery() const { return {c0.to_montgomery(), c1.to_montgomery()}; }
    Fp2 to_plain() const { return {c0.to_plain(), c1.to_plain()}; }
};

} // namespace cuzkops
