// Arithmetic on N little-endian 64-bit limbs: the host's leaf below field.hpp. A device has a leaf of its own with the
// same three functions. All inputs and outputs are canonical: below the modulus M::MODULUS.
#pragma once
#include <cstdint>

namespace cuzkops {

__extension__ typedef unsigned __int128 u128; // 64 x 64 -> 128 products; gcc and clang on 64-bit targets

// out = t - modulus where t >= modulus, else t; t < 2 * modulus < 2^(64 N).
template <class M> inline void subtract_modulus_once(std::uint64_t* out, const std::uint64_t* t) {
    constexpr int N = M::N;
    std::uint64_t reduced[N];
    std::uint64_t borrow = 0;
    for (int j = 0; j < N; j++) {
        const u128 d = static_cast<u128>(t[j]) - M::MODULUS[j] - borrow;
        reduced[j] = static_cast<std::uint64_t>(d);
        borrow = static_cast<std::uint64_t>(d >> 64) & 1;
    }
    const std::uint64_t keep = 0 - borrow; // all ones where t < modulus: no branch on data
    for (int j = 0; j < N; j++) out[j] = (t[j] & keep) | (reduced[j] & ~keep);
}

// Both moduli leave at least one bit of the top limb free, so a + b never overflows N limbs.
template <class M> inline void add_mod(std::uint64_t* out, const std::uint64_t* a, const std::uint64_t* b) {
    constexpr int N = M::N;
    std::uint64_t t[N];
    std::uint64_t carry = 0;
    for (int j = 0; j < N; j++) {
        const u128 s = static_cast<u128>(a[j]) + b[j] + carry;
        t[j] = static_cast<std::uint64_t>(s);
        carry = static_cast<std::uint64_t>(s >> 64);
    }
    subtract_modulus_once<M>(out, t);
}

template <class M> inline void sub_mod(std::uint64_t* out, const std::uint64_t* a, const std::uint64_t* b) {
    constexpr int N = M::N;
    std::uint64_t t[N];
    std::uint64_t borrow = 0;
    for (int j = 0; j < N; j++) {
        const u128 d = static_cast<u128>(a[j]) - b[j] - borrow;
        t[j] = static_cast<std::uint64_t>(d);
        borrow = static_cast<std::uint64_t>(d >> 64) & 1;
    }
    const std::uint64_t mask = 0 - borrow; // add the modulus back where a < b
    std::uint64_t carry = 0;
    for (int j = 0; j < N; j++) {
        const u128 s = static_cast<u128>(t[j]) + (M::MODULUS[j] & mask) + carry;
        out[j] = static_cast<std::uint64_t>(s);
        carry = static_cast<std::uint64_t>(s >> 64);
    }
}

// out = a b / 2^(64 N) mod the modulus. Montgomery product, coarsely integrated operand scanning (Koc, Acar, Kaliski,
// "Analyzing and comparing Montgomery multiplication algorithms", 1996), without the extra limb: it is not needed where
// the modulus' top limb is below 2^63 - 1 (ConsenSys, "Faster big-integer modular multiplication", 2020).
// Not inlined: a call costs little beside it, and inlining doubles the time to compile.
template <class M>
__attribute__((noinline)) void montgomery_mul(std::uint64_t* out, const std::uint64_t* a, const std::uint64_t* b) {
    constexpr int N = M::N;
    static_assert(M::MODULUS[N - 1] < 0x7fffffffffffffffull, "the short form of the product needs a free top bit");
    std::uint64_t t[N] = {};
    for (int i = 0; i < N; i++) {
        u128 product = static_cast<u128>(a[0]) * b[i] + t[0];
        std::uint64_t carry_a = static_cast<std::uint64_t>(product >> 64);
        const std::uint64_t low = static_cast<std::uint64_t>(product);
        const std::uint64_t m = low * M::INV;
        std::uint64_t carry_m = static_cast<std::uint64_t>((static_cast<u128>(m) * M::MODULUS[0] + low) >> 64);
        for (int j = 1; j < N; j++) {
            product = static_cast<u128>(a[j]) * b[i] + t[j] + carry_a;
            carry_a = static_cast<std::uint64_t>(product >> 64);
            const u128 sum = static_cast<u128>(m) * M::MODULUS[j] + static_cast<std::uint64_t>(product) + carry_m;
            carry_m = static_cast<std::uint64_t>(sum >> 64);
            t[j - 1] = static_cast<std::uint64_t>(sum);
        }
        t[N - 1] = carry_a + carry_m;
    }
    subtract_modulus_once<M>(out, t);
}

} // namespace cuzkops
