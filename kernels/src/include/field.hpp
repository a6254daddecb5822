// Prime fields Fr and Fp as values with operators. Elements are in Montgomery form and canonical.
#pragma once
#include <cstdint>
#include <cstring>

#include "constants.hpp"
#include "limbs64.hpp"

namespace cuzkops {

struct FrModulus {
    static constexpr int N = 4;
    static constexpr const std::uint64_t (&MODULUS)[N] = constants::FR_MODULUS;
    static constexpr const std::uint64_t (&ONE)[N] = constants::FR_ONE;
    static constexpr const std::uint64_t (&R2)[N] = constants::FR_R2;
    static constexpr const std::uint64_t (&MINUS_TWO)[N] = constants::FR_MINUS_TWO;
    static constexpr std::uint64_t INV = constants::FR_INV;
};

struct FpModulus {
    static constexpr int N = 6;
    static constexpr const std::uint64_t (&MODULUS)[N] = constants::FP_MODULUS;
    static constexpr const std::uint64_t (&ONE)[N] = constants::FP_ONE;
    static constexpr const std::uint64_t (&R2)[N] = constants::FP_R2;
    static constexpr const std::uint64_t (&MINUS_TWO)[N] = constants::FP_MINUS_TWO;
    static constexpr std::uint64_t INV = constants::FP_INV;
};

template <class M> struct Field {
    static constexpr int LIMBS = M::N;
    std::uint64_t limb[M::N];

    static Field load(const std::uint64_t* words) {
        Field f;
        std::memcpy(f.limb, words, sizeof f.limb);
        return f;
    }
    void store(std::uint64_t* words) const { std::memcpy(words, limb, sizeof limb); }

    static Field zero() { return Field{}; }
    static Field one() { return load(M::ONE); }

    bool is_zero() const {
        std::uint64_t any = 0;
        for (int j = 0; j < M::N; j++) any |= limb[j];
        return any == 0;
    }
    // Whether the limbs, whatever their domain, are below the modulus.
    bool is_canonical() const {
        for (int j = M::N - 1; j >= 0; j--)
            if (limb[j] != M::MODULUS[j]) return limb[j] < M::MODULUS[j];
        return false;
    }
    friend bool operator==(const Field& a, const Field& b) { return std::memcmp(a.limb, b.limb, sizeof a.limb) == 0; }
    friend bool operator!=(const Field& a, const Field& b) { return !(a == b); }
    friend Field operator+(const Field& a, const Field& b) {
        Field out;
        add_mod<M>(out.limb, a.limb, b.limb);
        return out;
    }
    friend Field operator-(const Field& a, const Field& b) {
        Field out;
        sub_mod<M>(out.limb, a.limb, b.limb);
        return out;
    }
    friend Field operator*(const Field& a, const Field& b) {
        Field out;
        montgomery_mul<M>(out.limb, a.limb, b.limb);
        return out;
    }
    Field square() const { return *this * *this; }
    Field doubled() const { return *this + *this; }
    Field negated() const { return zero() - *this; }

    // This to the power of an exponent of n_words plain limbs, by squaring from the top bit.
    Field pow(const std::uint64_t* exponent, int n_words) const {
        Field out = one();
        for (int bit = 64 * n_words - 1; bit >= 0; bit--) {
            out = out.square();
            if (exponent[bit / 64] >> (bit % 64) & 1) out = out * *this;
        }
        return out;
    }
    // By Fermat: x^(modulus - 2). The inverse of 0 is 0.
    Field inverse() const { return pow(M::MINUS_TWO, M::N); }

    // Plain to Montgomery form and back.
    Field to_montgomery() const { return *this * load(M::R2); }
    Field to_plain() const {
        Field plain_one = zero();
        plain_one.limb[0] = 1;
        return *this * plain_one;
    }
};

using Fr = Field<FrModulus>;
using Fp = Field<FpModulus>;

} // namespace cuzkops
