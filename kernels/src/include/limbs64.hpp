// Arithmetic on N little-endian 64-bit limbs in plain C++: the leaf below field.hpp that every 64-bit machine has. The
// other leaves, limbs_x86.hpp and limbs32.hpp, have the same functions. Unless a comment says otherwise inputs and
// outputs are canonical (below the modulus), and an output may be the same memory as an input.
#pragma once
#include <cstdint>

#include "platform.hpp"

namespace cuzkops {

__extension__ typedef unsigned __int128 u128; // 64 x 64 -> 128 products; gcc, clang and nvcc on 64-bit targets

// out = a + b + carry over n limbs; returns the carry.
template <int N>
CUZKOPS_FN inline std::uint64_t add_limbs(std::uint64_t* out, const std::uint64_t* a, const std::uint64_t* b) {
    std::uint64_t carry = 0;
    for (int j = 0; j < N; j++) {
        const u128 s = static_cast<u128>(a[j]) + b[j] + carry;
        out[j] = static_cast<std::uint64_t>(s);
        carry = static_cast<std::uint64_t>(s >> 64);
    }
    return carry;
}

// out = a - b over n limbs; returns the borrow.
template <int N>
CUZKOPS_FN inline std::uint64_t sub_limbs(std::uint64_t* out, const std::uint64_t* a, const std::uint64_t* b) {
    std::uint64_t borrow = 0;
    for (int j = 0; j < N; j++) {
        const u128 d = static_cast<u128>(a[j]) - b[j] - borrow;
        out[j] = static_cast<std::uint64_t>(d);
        borrow = static_cast<std::uint64_t>(d >> 64) & 1;
    }
    return borrow;
}

struct Portable64 {
    // Both moduli leave at least one bit of the top limb free, so a + b never overflows N limbs.
    template <class M>
    CUZKOPS_FN static void add(std::uint64_t* out, const std::uint64_t* a, const std::uint64_t* b) {
        std::uint64_t t[M::N];
        add_limbs<M::N>(t, a, b);
        subtract_modulus_once<M>(out, t);
    }

    template <class M>
    CUZKOPS_FN static void sub(std::uint64_t* out, const std::uint64_t* a, const std::uint64_t* b) {
        std::uint64_t t[M::N];
        const std::uint64_t mask = 0 - sub_limbs<M::N>(t, a, b);
        add_masked_modulus<M>(out, t, mask);
    }

    // out = a b / 2^(64 N) mod the modulus. Montgomery product, coarsely integrated operand scanning (Koc, Acar,
    // Kaliski, "Analyzing and comparing Montgomery multiplication algorithms", 1996), without the extra limb: it is not
    // needed where the modulus' top limb is below 2^63 - 1 (ConsenSys, "Faster big-integer modular multiplication",
    // 2020). Cost: 2 N^2 + N products of limbs. Not inlined: a call costs little beside it.
    template <class M>
    CUZKOPS_BIG_FN static void mul(std::uint64_t* out, const std::uint64_t* a,
                                                         const std::uint64_t* b) {
        constexpr int N = M::N;
        static_assert(M::modulus(N - 1) < 0x7fffffffffffffffull, "the short form of the product needs a free top bit");
        std::uint64_t t[N] = {};
        for (int i = 0; i < N; i++) {
            u128 product = static_cast<u128>(a[0]) * b[i] + t[0];
            std::uint64_t carry_a = static_cast<std::uint64_t>(product >> 64);
            const std::uint64_t low = static_cast<std::uint64_t>(product);
            const std::uint64_t m = low * M::INV;
            std::uint64_t carry_m = static_cast<std::uint64_t>((static_cast<u128>(m) * M::modulus(0) + low) >> 64);
            for (int j = 1; j < N; j++) {
                product = static_cast<u128>(a[j]) * b[i] + t[j] + carry_a;
                carry_a = static_cast<std::uint64_t>(product >> 64);
                const u128 sum = static_cast<u128>(m) * M::modulus(j) + static_cast<std::uint64_t>(product) + carry_m;
                carry_m = static_cast<std::uint64_t>(sum >> 64);
                t[j - 1] = static_cast<std::uint64_t>(sum);
            }
            t[N - 1] = carry_a + carry_m;
        }
        subtract_modulus_once<M>(out, t);
    }

    template <class M> CUZKOPS_FN static void square(std::uint64_t* out, const std::uint64_t* a) { mul<M>(out, a, a); }

    // out = a b, all 2 N limbs, for any a and b of N limbs; out is other memory than both. N^2 products of limbs.
    template <class M>
    CUZKOPS_BIG_FN static void multiply_wide(std::uint64_t* out, const std::uint64_t* a,
                                                                   const std::uint64_t* b) {
        constexpr int N = M::N;
        for (int j = 0; j < N; j++) out[j] = 0;
        for (int i = 0; i < N; i++) {
            std::uint64_t carry = 0;
            for (int j = 0; j < N; j++) {
                const u128 sum = static_cast<u128>(a[j]) * b[i] + out[i + j] + carry;
                out[i + j] = static_cast<std::uint64_t>(sum);
                carry = static_cast<std::uint64_t>(sum >> 64);
            }
            out[i + N] = carry;
        }
    }

    // out = a - b over 2 N limbs, plus modulus 2^(64 N) where that is negative: right modulo the modulus.
    template <class M>
    CUZKOPS_FN static void subtract_wide(std::uint64_t* out, const std::uint64_t* a, const std::uint64_t* b) {
        const std::uint64_t mask = 0 - sub_limbs<2 * M::N>(out, a, b);
        add_masked_modulus<M>(out + M::N, out + M::N, mask);
    }

    // out = wide / 2^(64 N) mod the modulus, for wide of 2 N limbs below modulus 2^(64 N). N^2 + N products of limbs.
    template <class M>
    CUZKOPS_BIG_FN static void reduce(std::uint64_t* out, const std::uint64_t* wide) {
        constexpr int N = M::N;
        std::uint64_t t[N];
        for (int j = 0; j < N; j++) t[j] = wide[j];
        for (int i = 0; i < N; i++) { // t = (t + m modulus) / 2^64: below 2^(64 N) again
            const std::uint64_t m = t[0] * M::INV;
            std::uint64_t carry = static_cast<std::uint64_t>((static_cast<u128>(m) * M::modulus(0) + t[0]) >> 64);
            for (int j = 1; j < N; j++) {
                const u128 sum = static_cast<u128>(m) * M::modulus(j) + t[j] + carry;
                t[j - 1] = static_cast<std::uint64_t>(sum);
                carry = static_cast<std::uint64_t>(sum >> 64);
            }
            t[N - 1] = carry;
        }
        add_limbs<N>(t, t, wide + N);
        subtract_modulus_once<M>(out, t);
    }

private:
    // out = t - modulus where t >= modulus, else t, for t below twice the modulus. No branch on data.
    template <class M> CUZKOPS_FN static void subtract_modulus_once(std::uint64_t* out, const std::uint64_t* t) {
        constexpr int N = M::N;
        std::uint64_t reduced[N];
        std::uint64_t borrow = 0;
        for (int j = 0; j < N; j++) {
            const u128 d = static_cast<u128>(t[j]) - M::modulus(j) - borrow;
            reduced[j] = static_cast<std::uint64_t>(d);
            borrow = static_cast<std::uint64_t>(d >> 64) & 1;
        }
        const std::uint64_t keep = 0 - borrow; // all ones where t < modulus
        for (int j = 0; j < N; j++) out[j] = (t[j] & keep) | (reduced[j] & ~keep);
    }

    template <class M>
    CUZKOPS_FN static void add_masked_modulus(std::uint64_t* out, const std::uint64_t* t, std::uint64_t mask) {
        std::uint64_t carry = 0;
        for (int j = 0; j < M::N; j++) {
            const u128 s = static_cast<u128>(t[j]) + (M::modulus(j) & mask) + carry;
            out[j] = static_cast<std::uint64_t>(s);
            carry = static_cast<std::uint64_t>(s >> 64);
        }
    }
};

} // namespace cuzkops
