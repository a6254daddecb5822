// Arithmetic on 2 N 32-bit limbs with carry chains: the leaf below field.hpp for a CUDA device, whose products and
// additions are 32 bits wide. With the emulation in carry_chain.hpp it runs on the host too. An element has the same
// bytes as in the 64-bit leaves: little-endian words.
#pragma once
#include <cstdint>

#include "carry_chain.hpp"

namespace cuzkops {

struct Carry32 {
    template <class M>
    CUZKOPS_FN static void add(std::uint64_t* out, const std::uint64_t* a, const std::uint64_t* b) {
        Words<M> t;
        CarryChain chain;
        t.word[0] = chain.add_cc(half(a, 0), half(b, 0));
        for (int j = 1; j < n<M>; j++) t.word[j] = chain.addc_cc(half(a, j), half(b, j));
        subtract_modulus_once<M>(out, t);
    }

    template <class M>
    CUZKOPS_FN static void sub(std::uint64_t* out, const std::uint64_t* a, const std::uint64_t* b) {
        Words<M> t;
        CarryChain chain;
        t.word[0] = chain.sub_cc(half(a, 0), half(b, 0));
        for (int j = 1; j < n<M>; j++) t.word[j] = chain.subc_cc(half(a, j), half(b, j));
        add_masked_modulus<M>(t, chain.subc(0, 0));
        store(out, t);
    }

    // Product and reduction row by row, as Portable64::mul, with the low and the high halves of the 32-bit products
    // added in a chain each. 2 (2N)^2 + 2N products, each counted for its low and its high half. Not inlined: the code of a
    // point addition would take minutes to compile.
    template <class M>
    __attribute__((noinline)) CUZKOPS_FN static void mul(std::uint64_t* out, const std::uint64_t* a,
                                                         const std::uint64_t* b) {
        std::uint32_t t[n<M> + 2] = {};
        Words<M> factor, modulus;
        for (int j = 0; j < n<M>; j++) {
            factor.word[j] = half(a, j);
            modulus.word[j] = modulus_half<M>(j);
        }
        for (int i = 0; i < n<M>; i++) {
            add_row<M>(t, factor, half(b, i));
            add_row<M>(t, modulus, t[0] * static_cast<std::uint32_t>(M::INV));
            for (int j = 0; j <= n<M>; j++) t[j] = t[j + 1]; // t[0] is 0 now
            t[n<M> + 1] = 0;
        }
        Words<M> sum;
        for (int j = 0; j < n<M>; j++) sum.word[j] = t[j];
        subtract_modulus_once<M>(out, sum);
    }

    template <class M> CUZKOPS_FN static void square(std::uint64_t* out, const std::uint64_t* a) { mul<M>(out, a, a); }

    template <class M>
    __attribute__((noinline)) CUZKOPS_FN static void multiply_wide(std::uint64_t* out, const std::uint64_t* a,
                                                         const std::uint64_t* b) {
        std::uint32_t t[2 * n<M> + 2] = {};
        Words<M> factor;
        for (int j = 0; j < n<M>; j++) factor.word[j] = half(a, j);
        for (int i = 0; i < n<M>; i++) add_row<M>(t + i, factor, half(b, i));
        for (int j = 0; j < 2 * M::N; j++) out[j] = joined(t[2 * j], t[2 * j + 1]);
    }

    template <class M>
    CUZKOPS_FN static void subtract_wide(std::uint64_t* out, const std::uint64_t* a, const std::uint64_t* b) {
        std::uint32_t low[n<M>];
        Words<M> high;
        CarryChain chain;
        low[0] = chain.sub_cc(half(a, 0), half(b, 0));
        for (int j = 1; j < n<M>; j++) low[j] = chain.subc_cc(half(a, j), half(b, j));
        for (int j = 0; j < n<M>; j++) high.word[j] = chain.subc_cc(half(a, n<M> + j), half(b, n<M> + j));
        add_masked_modulus<M>(high, chain.subc(0, 0));
        for (int j = 0; j < M::N; j++) out[j] = joined(low[2 * j], low[2 * j + 1]);
        store(out + M::N, high);
    }

    template <class M>
    __attribute__((noinline)) CUZKOPS_FN static void reduce(std::uint64_t* out, const std::uint64_t* wide) {
        std::uint32_t t[n<M> + 2] = {};
        Words<M> modulus;
        for (int j = 0; j < n<M>; j++) {
            t[j] = half(wide, j);
            modulus.word[j] = modulus_half<M>(j);
        }
        for (int i = 0; i < n<M>; i++) {
            add_row<M>(t, modulus, t[0] * static_cast<std::uint32_t>(M::INV));
            for (int j = 0; j <= n<M>; j++) t[j] = t[j + 1];
            t[n<M> + 1] = 0;
        }
        Words<M> sum;
        CarryChain chain;
        sum.word[0] = chain.add_cc(t[0], half(wide, n<M>));
        for (int j = 1; j < n<M>; j++) sum.word[j] = chain.addc_cc(t[j], half(wide, n<M> + j));
        subtract_modulus_once<M>(out, sum);
    }

private:
    template <class M> static constexpr int n = 2 * M::N;
    template <class M> struct Words {
        std::uint32_t word[n<M>];
    };

    CUZKOPS_FN static std::uint32_t half(const std::uint64_t* words, int j) {
        return static_cast<std::uint32_t>(words[j / 2] >> (32 * (j % 2)));
    }
    CUZKOPS_FN static std::uint64_t joined(std::uint32_t low, std::uint32_t high) {
        return static_cast<std::uint64_t>(high) << 32 | low;
    }
    template <class M> CUZKOPS_FN static std::uint32_t modulus_half(int j) {
        return static_cast<std::uint32_t>(M::modulus(j / 2) >> (32 * (j % 2)));
    }
    template <class T> CUZKOPS_FN static void store(std::uint64_t* out, const T& t) {
        for (int j = 0; j < static_cast<int>(sizeof t.word / 8); j++) out[j] = joined(t.word[2 * j], t.word[2 * j + 1]);
    }

    // t += a b over n + 2 words, the low halves of the products in one chain, the high halves in the next.
    template <class M> CUZKOPS_FN static void add_row(std::uint32_t* t, const Words<M>& a, std::uint32_t b) {
        CarryChain chain;
        t[0] = chain.mad_lo_cc(a.word[0], b, t[0]);
        for (int j = 1; j < n<M>; j++) t[j] = chain.madc_lo_cc(a.word[j], b, t[j]);
        t[n<M>] = chain.addc_cc(t[n<M>], 0);
        t[n<M> + 1] = chain.addc(t[n<M> + 1], 0);
        t[1] = chain.mad_hi_cc(a.word[0], b, t[1]);
        for (int j = 1; j < n<M>; j++) t[j + 1] = chain.madc_hi_cc(a.word[j], b, t[j + 1]);
        t[n<M> + 1] = chain.addc(t[n<M> + 1], 0);
    }

    // out = t - modulus where t >= modulus, else t.
    template <class M> CUZKOPS_FN static void subtract_modulus_once(std::uint64_t* out, const Words<M>& t) {
        Words<M> reduced;
        CarryChain chain;
        reduced.word[0] = chain.sub_cc(t.word[0], modulus_half<M>(0));
        for (int j = 1; j < n<M>; j++) reduced.word[j] = chain.subc_cc(t.word[j], modulus_half<M>(j));
        const std::uint32_t keep = chain.subc(0, 0); // all ones where t < modulus
        for (int j = 0; j < n<M>; j++) reduced.word[j] = (t.word[j] & keep) | (reduced.word[j] & ~keep);
        store(out, reduced);
    }

    template <class M> CUZKOPS_FN static void add_masked_modulus(Words<M>& t, std::uint32_t mask) {
        CarryChain chain;
        t.word[0] = chain.add_cc(t.word[0], modulus_half<M>(0) & mask);
        for (int j = 1; j < n<M>; j++) t.word[j] = chain.addc_cc(t.word[j], modulus_half<M>(j) & mask);
    }
};

} // namespace cuzkops
