// Prime fields as values with operators. Elements are in Montgomery form and canonical. The leaf below does the limbs:
// Portable64 (limbs64.hpp), Adx64 (limbs_x86.hpp) or Carry32 (limbs32.hpp).
#pragma once
#include <cstdint>
#include <type_traits>

#include "constants.hpp"
#include "inverse.hpp"
#include "limbs32.hpp"
#include "limbs64.hpp"
#include "limbs_x86.hpp"

namespace cuzkops {

template <class M, class L> struct Field {
    using Modulus = M;
    using Leaf = L;
    static constexpr int LIMBS = M::N;
    static constexpr bool LOOSE = std::is_same_v<L, Carry32Loose> && M::N == 6; // limbs are below 2 moduli, not 1
    std::uint64_t limb[M::N];

    CUZKOPS_FN static Field load(const std::uint64_t* words) {
        Field f;
        for (int j = 0; j < M::N; j++) f.limb[j] = words[j];
        return f;
    }
    CUZKOPS_FN void store(std::uint64_t* words) const {
        if constexpr (LOOSE) {
            L::template make_canonical<M>(words, limb);
        } else {
            for (int j = 0; j < M::N; j++) words[j] = limb[j];
        }
    }
    // From one of the generated functions of constants.hpp.
    template <class Words> CUZKOPS_FN static Field constant(Words words) {
        Field f;
        for (int j = 0; j < M::N; j++) f.limb[j] = words(j);
        return f;
    }

    CUZKOPS_FN static Field zero() { return Field{}; }
    CUZKOPS_FN static Field one() { return constant(M::one); }

    CUZKOPS_FN bool is_zero() const {
        std::uint64_t any = 0;
        for (int j = 0; j < M::N; j++) any |= limb[j];
        if constexpr (LOOSE) {
            std::uint64_t different = 0;
            for (int j = 0; j < M::N; j++) different |= limb[j] ^ M::modulus(j);
            return any == 0 || different == 0;
        }
        return any == 0;
    }
    // Whether the limbs, whatever their domain, are below the modulus.
    CUZKOPS_FN bool is_canonical() const {
        for (int j = M::N - 1; j >= 0; j--)
            if (limb[j] != M::modulus(j)) return limb[j] < M::modulus(j);
        return false;
    }
    CUZKOPS_FN friend bool operator==(const Field& a, const Field& b) {
        if constexpr (LOOSE) return (a - b).is_zero();
        std::uint64_t any = 0;
        for (int j = 0; j < M::N; j++) any |= a.limb[j] ^ b.limb[j];
        return any == 0;
    }
    CUZKOPS_FN friend bool operator!=(const Field& a, const Field& b) { return !(a == b); }
    CUZKOPS_FN friend Field operator+(const Field& a, const Field& b) {
        Field out;
        L::template add<M>(out.limb, a.limb, b.limb);
        return out;
    }
    CUZKOPS_FN friend Field operator-(const Field& a, const Field& b) {
        Field out;
        L::template sub<M>(out.limb, a.limb, b.limb);
        return out;
    }
    CUZKOPS_FN friend Field operator*(const Field& a, const Field& b) {
        Field out;
        L::template mul<M>(out.limb, a.limb, b.limb);
        return out;
    }
    CUZKOPS_FN Field square() const {
        Field out;
        L::template square<M>(out.limb, limb);
        return out;
    }
    // Whether sums of products are reduced once: in Fp by the device's leaf.
    static constexpr bool SUMS_PRODUCTS = (std::is_same_v<L, Carry32> || LOOSE) && M::N == 6;

    // By value: a choice between two addresses would keep both in memory.
    CUZKOPS_FN static Field choose(bool first, const Field& a, const Field& b) {
        Field out;
        for (int j = 0; j < M::N; j++) out.limb[j] = first ? a.limb[j] : b.limb[j];
        return out;
    }
    // a b - c d
    CUZKOPS_FN static Field difference_of_products(const Field& a, const Field& b, const Field& c, const Field& d) {
        if constexpr (SUMS_PRODUCTS) {
            Field out;
            const Field minus_d = d.subtracted_from_bound();
            L::template sum_of_products<M, 2>(out.limb, {a.limb, c.limb}, {b.limb, minus_d.limb});
            return out;
        } else {
            return a * b - c * d;
        }
    }
    CUZKOPS_FN static Field sum_of_squares(const Field& a, const Field& b) {
        if constexpr (SUMS_PRODUCTS) {
            Field out;
            L::template sum_of_products<M, 2>(out.limb, {a.limb, b.limb}, {a.limb, b.limb});
            return out;
        } else {
            return a.square() + b.square();
        }
    }
    // For sums of products only: the negative of 0 is the modulus, or twice that.
    CUZKOPS_FN Field subtracted_from_bound() const {
        Field out;
        L::template subtract_from_bound<M>(out.limb, limb);
        return out;
    }
    CUZKOPS_FN Field doubled() const { return *this + *this; }
    CUZKOPS_FN Field negated() const { return zero() - *this; }

    // This to the power of a plain exponent, given as a function from an index to a word, by squaring from the top.
    template <class Words> CUZKOPS_FN Field pow(Words exponent, int n_words) const {
        Field out = one();
        for (int bit = 64 * n_words - 1; bit >= 0; bit--) {
            out = out.square();
            if (exponent(bit / 64) >> (bit % 64) & 1) out = out * *this;
        }
        return out;
    }
    // The inverse of 0 is 0. By division steps, about 2 us for Fp on a CPU and 40 us in one thread of a device.
    CUZKOPS_FN Field inverse() const {
        Field plain;
        invert_by_divsteps<M>(plain.limb, limb); // of x R: it is x^-1 R^-1
        return plain * constant(M::r3);
    }
    // x^(modulus - 2): 64 N squarings and about half as many products.
    CUZKOPS_FN Field inverse_by_fermat() const { return pow(M::minus_two, M::N); }

    // Plain to Montgomery form and back.
    CUZKOPS_FN Field to_montgomery() const { return *this * constant(M::r2); }
    CUZKOPS_FN Field to_plain() const {
        Field plain_one = zero();
        plain_one.limb[0] = 1;
        return *this * plain_one;
    }
};

template <class Leaf> using FrOf = Field<FrModulus, Leaf>;
template <class Leaf> using FpOf = Field<FpModulus, Leaf>;

} // namespace cuzkops
