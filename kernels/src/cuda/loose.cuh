// Butterflies on elements of Fr that are not reduced to the end: 2 r fits 256 bits, so that a product needs no final
// subtraction, and a sum is corrected only where its carry says so. Each function says what it takes and gives.
#pragma once
#include <cstdint>

#include "field.hpp"
#include "sparse_product.cuh"

namespace cuzkops {

template <class Fr> struct Loose {
    // f y / 2^256, below 2 r. f is below r, y is any number of 256 bits.
    CUZKOPS_FN static Fr product(const Fr& f, const Fr& y) {
        Fr out;
        SparseProduct<typename Fr::Modulus>::multiply(out.limb, f.limb, y.limb);
        return out;
    }

    // x + y, for any x and y < 2 r: modulo 2 r only where the sum has more than 256 bits.
    CUZKOPS_FN static Fr sum(const Fr& x, const Fr& y) {
        Words t;
        CarryChain chain;
        t.word[0] = chain.add_cc(half(x, 0), half(y, 0));
        CUZKOPS_UNROLL for (int j = 1; j < 8; j++) t.word[j] = chain.addc_cc(half(x, j), half(y, j));
        subtract_twice_if(t, chain.addc(0, 0));
        return joined(t);
    }
    // x - y, for any x and y < 2 r: 2 r more where it is negative. Below 2 r where x is.
    CUZKOPS_FN static Fr difference(const Fr& x, const Fr& y) {
        Words t;
        CarryChain chain;
        t.word[0] = chain.sub_cc(half(x, 0), half(y, 0));
        CUZKOPS_UNROLL for (int j = 1; j < 8; j++) t.word[j] = chain.subc_cc(half(x, j), half(y, j));
        add_twice_if(t, chain.subc(0, 0));
        return joined(t);
    }
    // x + y modulo 2 r, for x and y < 2 r: below 2 r.
    CUZKOPS_FN static Fr sum_modulo(const Fr& x, const Fr& y) {
        Words less, t; // less = y - 2 r + 2^256
        CarryChain chain;
        less.word[0] = chain.sub_cc(half(y, 0), twice(0));
        CUZKOPS_UNROLL for (int j = 1; j < 7; j++) less.word[j] = chain.subc_cc(half(y, j), twice(j));
        less.word[7] = chain.subc(half(y, 7), twice(7));
        t.word[0] = chain.add_cc(half(x, 0), less.word[0]);
        CUZKOPS_UNROLL for (int j = 1; j < 8; j++) t.word[j] = chain.addc_cc(half(x, j), less.word[j]);
        add_twice_if(t, chain.addc(0, 0) ^ 1);
        return joined(t);
    }

    // x, less 2 r where it is as large: below 2 r, for any number of 256 bits.
    CUZKOPS_FN static Fr below_twice(const Fr& x) { return subtracted_once(x, 1); }
    // The same element, below r.
    CUZKOPS_FN static Fr canonical(const Fr& x) { return subtracted_once(below_twice(x), 0); }

private:
    struct Words {
        std::uint32_t word[8];
    };
    CUZKOPS_FN static std::uint32_t half(const Fr& x, int j) {
        return static_cast<std::uint32_t>(x.limb[j / 2] >> (32 * (j % 2)));
    }
    CUZKOPS_FN static Fr joined(const Words& t) {
        Fr out;
        CUZKOPS_UNROLL for (int j = 0; j < 4; j++)
            out.limb[j] = static_cast<std::uint64_t>(t.word[2 * j + 1]) << 32 | t.word[2 * j];
        return out;
    }
    // Words of 2^shift r, shift 0 or 1.
    CUZKOPS_FN static constexpr std::uint32_t multiple(int j, int shift) {
        const std::uint64_t limb = Fr::Modulus::modulus(j / 2) << shift;
        const std::uint64_t below = shift && j / 2 > 0 ? Fr::Modulus::modulus(j / 2 - 1) >> 63 : 0;
        return static_cast<std::uint32_t>((limb | below) >> (32 * (j % 2)));
    }
    CUZKOPS_FN static constexpr std::uint32_t twice(int j) { return multiple(j, 1); }

    CUZKOPS_FN static Fr subtracted_once(const Fr& x, int shift) {
        Words t;
        CarryChain chain;
        t.word[0] = chain.sub_cc(half(x, 0), multiple(0, shift));
        CUZKOPS_UNROLL for (int j = 1; j < 8; j++) t.word[j] = chain.subc_cc(half(x, j), multiple(j, shift));
        const bool keep = chain.subc(0, 0) != 0;
        CUZKOPS_UNROLL for (int j = 0; j < 8; j++) t.word[j] = keep ? half(x, j) : t.word[j];
        return joined(t);
    }

    // Conditional corrections by 2 r: on the device eight instructions under a predicate, without a mask for each word.
    CUZKOPS_FN static void subtract_twice_if(Words& t, std::uint32_t condition) {
#ifdef __CUDA_ARCH__
        asm volatile("{ .reg .pred p; setp.ne.u32 p, %8, 0;\n\t"
                     "@p sub.cc.u32 %0, %0, %9;\n\t@p subc.cc.u32 %1, %1, %10;\n\t@p subc.cc.u32 %2, %2, %11;\n\t"
                     "@p subc.cc.u32 %3, %3, %12;\n\t@p subc.cc.u32 %4, %4, %13;\n\t@p subc.cc.u32 %5, %5, %14;\n\t"
                     "@p subc.cc.u32 %6, %6, %15;\n\t@p subc.u32 %7, %7, %16;\n\t}"
                     : "+r"(t.word[0]), "+r"(t.word[1]), "+r"(t.word[2]), "+r"(t.word[3]), "+r"(t.word[4]),
                       "+r"(t.word[5]), "+r"(t.word[6]), "+r"(t.word[7])
                     : "r"(condition), "n"(twice(0)), "n"(twice(1)), "n"(twice(2)), "n"(twice(3)), "n"(twice(4)),
                       "n"(twice(5)), "n"(twice(6)), "n"(twice(7)));
#else
        if (!condition) return;
        CarryChain chain;
        t.word[0] = chain.sub_cc(t.word[0], twice(0));
        for (int j = 1; j < 8; j++) t.word[j] = chain.subc_cc(t.word[j], twice(j));
#endif
    }
    CUZKOPS_FN static void add_twice_if(Words& t, std::uint32_t condition) {
#ifdef __CUDA_ARCH__
        asm volatile("{ .reg .pred p; setp.ne.u32 p, %8, 0;\n\t"
                     "@p add.cc.u32 %0, %0, %9;\n\t@p addc.cc.u32 %1, %1, %10;\n\t@p addc.cc.u32 %2, %2, %11;\n\t"
                     "@p addc.cc.u32 %3, %3, %12;\n\t@p addc.cc.u32 %4, %4, %13;\n\t@p addc.cc.u32 %5, %5, %14;\n\t"
                     "@p addc.cc.u32 %6, %6, %15;\n\t@p addc.u32 %7, %7, %16;\n\t}"
                     : "+r"(t.word[0]), "+r"(t.word[1]), "+r"(t.word[2]), "+r"(t.word[3]), "+r"(t.word[4]),
                       "+r"(t.word[5]), "+r"(t.word[6]), "+r"(t.word[7])
                     : "r"(condition), "n"(twice(0)), "n"(twice(1)), "n"(twice(2)), "n"(twice(3)), "n"(twice(4)),
                       "n"(twice(5)), "n"(twice(6)), "n"(twice(7)));
#else
        if (!condition) return;
        CarryChain chain;
        t.word[0] = chain.add_cc(t.word[0], twice(0));
        for (int j = 1; j < 8; j++) t.word[j] = chain.addc_cc(t.word[j], twice(j));
#endif
    }
};

} // namespace cuzkops
