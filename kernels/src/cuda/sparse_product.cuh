// The Montgomery product of Fr without its last subtraction, for butterflies: the rows of limbs32.hpp for the sparse
// modulus, with two differences that the multiplier's pipe feels. The carries out of a row of products and of its
// reduction are added together, and the products of the first row are instructions of their own.
#pragma once
#include <cstdint>

#include "field.hpp"

namespace cuzkops {

template <class M> struct SparseProduct {
    static_assert(M::modulus(0) == 0xffffffff00000001ull && M::N == 4, "2^64 - 2^32 + 1 in the low words");
    static constexpr int N = 8;

    // a b / 2^256, below 2 moduli. a is below the modulus, b any number of 256 bits. Koc, Acar, Kaliski, "Analyzing and
    // comparing Montgomery multiplication algorithms", 1996.
    CUZKOPS_BIG_FN static void multiply(std::uint64_t* out, const std::uint64_t* a, const std::uint64_t* b) {
        std::uint32_t even[N], odd[N]; // the sum is even + 2^32 odd, and below 2^288
        CUZKOPS_UNROLL for (int j = 0; j < N; j += 2) {
            product(even + j, half(a, j), half(b, 0));
            product(odd + j, half(a, j + 1), half(b, 0));
        }
        reduce_row(even, odd, 0);
        CUZKOPS_UNROLL for (int i = 1; i < N; i += 2) {
            reduce_row(odd, even, shifted_row(odd, even, a, half(b, i))); // a word lower, what was odd is even
            if (i + 1 == N) break;
            reduce_row(even, odd, shifted_row(even, odd, a, half(b, i + 1)));
        }
        std::uint32_t sum[N];
        CarryChain chain;
        sum[0] = chain.add_cc(odd[1], even[0]);
        CUZKOPS_UNROLL for (int j = 1; j < N - 1; j++) sum[j] = chain.addc_cc(odd[j + 1], even[j]);
        sum[N - 1] = chain.addc(even[N - 1], 0);
        CUZKOPS_UNROLL for (int j = 0; j < M::N; j++)
            out[j] = static_cast<std::uint64_t>(sum[2 * j + 1]) << 32 | sum[2 * j];
    }

private:
    CUZKOPS_FN static std::uint32_t half(const std::uint64_t* words, int j) {
        return static_cast<std::uint32_t>(words[j / 2] >> (32 * (j % 2)));
    }
    CUZKOPS_FN static constexpr std::uint32_t modulus(int j) {
        return static_cast<std::uint32_t>(M::modulus(j / 2) >> (32 * (j % 2)));
    }
    // In C++ it becomes a product of 64-bit numbers on the device, with an addition of nothing to the high half.
    CUZKOPS_FN static void product(std::uint32_t* pair, std::uint32_t a, std::uint32_t b) {
#ifdef __CUDA_ARCH__
        asm("{ .reg .b64 both; mul.wide.u32 both, %2, %3; mov.b64 {%0, %1}, both; }"
            : "=r"(pair[0]), "=r"(pair[1])
            : "r"(a), "r"(b));
#else
        const std::uint64_t both = static_cast<std::uint64_t>(a) * b;
        pair[0] = static_cast<std::uint32_t>(both);
        pair[1] = static_cast<std::uint32_t>(both >> 32);
#endif
    }

    // sum = sum / 2^32 + a b, the lowest word of the sum being 0. The caller has exchanged even and odd: `odd` holds what
    // is still to be moved down by two words; its word 1 has become word 0 of the sum. Returns a carry into odd's top word.
    CUZKOPS_FN static std::uint32_t shifted_row(std::uint32_t* even, std::uint32_t* odd, const std::uint64_t* a,
                                                std::uint32_t b) {
        CarryChain chain;
        even[0] = chain.add_cc(even[0], odd[1]);
        CUZKOPS_UNROLL for (int j = 0; j < N - 2; j += 2) {
            odd[j] = chain.madc_lo_cc(half(a, j + 1), b, odd[j + 2]);
            odd[j + 1] = chain.madc_hi_cc(half(a, j + 1), b, odd[j + 3]);
        }
        odd[N - 2] = chain.madc_lo_cc(half(a, N - 1), b, 0);
        odd[N - 1] = chain.madc_hi(half(a, N - 1), b, 0);
        even[0] = chain.mad_lo_cc(half(a, 0), b, even[0]);
        even[1] = chain.madc_hi_cc(half(a, 0), b, even[1]);
        CUZKOPS_UNROLL for (int j = 2; j < N; j += 2) {
            even[j] = chain.madc_lo_cc(half(a, j), b, even[j]);
            even[j + 1] = chain.madc_hi_cc(half(a, j), b, even[j + 1]);
        }
        return chain.addc(0, 0);
    }

    // sum += q modulus, with the q that makes the lowest word 0: see limbs32.hpp. The carry goes into odd's top word.
    CUZKOPS_FN static void reduce_row(std::uint32_t* even, std::uint32_t* odd, std::uint32_t carry) {
        const std::uint32_t lowest = even[0];
        CarryChain chain;
        const std::uint32_t q = chain.inverted(lowest) + 1;
        chain.sub_cc(0, lowest); // borrows unless q is 0
        const std::uint32_t above = chain.subc(q, 0);
        odd[0] = chain.add_cc(odd[0], lowest);
        odd[1] = chain.addc_cc(odd[1], above);
        CUZKOPS_UNROLL for (int j = 2; j < N; j += 2) {
            odd[j] = chain.madc_lo_cc(modulus(j + 1), q, odd[j]);
            odd[j + 1] = chain.madc_hi_cc(modulus(j + 1), q, odd[j + 1]);
        }
        even[0] = chain.add_cc(lowest, q); // 0, and a carry unless q is 0
        even[1] = chain.addc_cc(even[1], 0);
        CUZKOPS_UNROLL for (int j = 2; j < N; j += 2) {
            even[j] = chain.madc_lo_cc(modulus(j), q, even[j]);
            even[j + 1] = chain.madc_hi_cc(modulus(j), q, even[j + 1]);
        }
        odd[N - 1] = chain.addc(odd[N - 1], carry);
    }
};

} // namespace cuzkops
