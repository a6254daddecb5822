// Arithmetic on 2 N 32-bit limbs with carry chains: the leaf below field.hpp for a CUDA device, whose products are 32
// bits wide. With the emulation in carry_chain.hpp it runs on the host too. An element has the same bytes as in the
// 64-bit leaves: little-endian words.
//
// A product of two words has a low and a high half, which belong to a pair of neighbouring words. Sums of products are
// kept in two accumulators, one for the pairs that start at even words and one for the odd ones: then a row of products
// is two carry chains without gaps, and the two halves of each product become one 64-bit multiply-add of the device
// (IMAD.WIDE.U32 with carry). A 381-bit product is 288 of those, a 255-bit one 112 (see `reduce_row` for the latter).
#pragma once
#include <cstdint>

#include "carry_chain.hpp"

namespace cuzkops {

// LOOSE: elements of Fp are below 2 moduli instead of 1, which spares each product its last subtraction: a product of
// such numbers is below (4 p / R + 1) p < 1.5 p, the sum of two below 1.9 p. Fr has no room for that, and is as ever.
template <bool LOOSE> struct Chains32 {
    template <class M>
    CUZKOPS_FN static void add(std::uint64_t* out, const std::uint64_t* a, const std::uint64_t* b) {
        Words<M> t;
        CarryChain chain;
        t.word[0] = chain.add_cc(half(a, 0), half(b, 0));
        CUZKOPS_UNROLL for (int j = 1; j < n<M>; j++) t.word[j] = chain.addc_cc(half(a, j), half(b, j));
        subtract_once<M>(out, t, BoundHalf<M>{});
    }

    template <class M>
    CUZKOPS_FN static void sub(std::uint64_t* out, const std::uint64_t* a, const std::uint64_t* b) {
        Words<M> t;
        CarryChain chain;
        t.word[0] = chain.sub_cc(half(a, 0), half(b, 0));
        CUZKOPS_UNROLL for (int j = 1; j < n<M>; j++) t.word[j] = chain.subc_cc(half(a, j), half(b, j));
        add_masked<M>(t, chain.subc(0, 0), BoundHalf<M>{});
        store(out, t);
    }

    // a b / R. Montgomery product, row by row: Koc, Acar, Kaliski, "Analyzing and comparing Montgomery multiplication
    // algorithms", 1996. a and b may be as large as 2 moduli where those leave 3 bits of the top word free (Fp).
    template <class M>
    CUZKOPS_BIG_FN static void mul(std::uint64_t* out, const std::uint64_t* a, const std::uint64_t* b) {
        const Words<M> x = words_of<M>(a);
        Words<M> even, odd;
        first_row<M>(even, odd, x, half(b, 0));
        reduce_row<M>(even, odd);
        CUZKOPS_UNROLL for (int i = 1; i < n<M>; i += 2) {
            shifted_row<M>(odd, even, x, half(b, i)); // a word lower, what was odd is even
            reduce_row<M>(odd, even);
            if (i + 1 == n<M>) break;
            shifted_row<M>(even, odd, x, half(b, i + 1));
            reduce_row<M>(even, odd);
        }
        finish<M>(out, odd, even);
    }

    // The sum of a[k] b[k] over up to 4 products, / R, with one reduction. For moduli that leave 3 bits of the top word
    // free; factors may be as large as the bound of elements.
    template <class M, int COUNT>
    CUZKOPS_BIG_FN static void sum_of_products(std::uint64_t* out, const std::uint64_t* const (&a)[COUNT],
                                               const std::uint64_t* const (&b)[COUNT]) {
        static_assert(M::modulus(M::N - 1) >> 61 == 0 && COUNT <= 4, "the rows must fit the top words");
        Words<M> even, odd;
        first_row<M>(even, odd, words_of<M>(a[0]), half(b[0], 0));
        CUZKOPS_UNROLL for (int k = 1; k < COUNT; k++) add_row<M>(even, odd, words_of<M>(a[k]), half(b[k], 0));
        reduce_row<M>(even, odd);
        CUZKOPS_UNROLL for (int i = 1; i < n<M>; i += 2) {
            shifted_row<M>(odd, even, words_of<M>(a[0]), half(b[0], i));
            CUZKOPS_UNROLL for (int k = 1; k < COUNT; k++) add_row<M>(odd, even, words_of<M>(a[k]), half(b[k], i));
            reduce_row<M>(odd, even);
            if (i + 1 == n<M>) break;
            shifted_row<M>(even, odd, words_of<M>(a[0]), half(b[0], i + 1));
            CUZKOPS_UNROLL for (int k = 1; k < COUNT; k++) add_row<M>(even, odd, words_of<M>(a[k]), half(b[k], i + 1));
            reduce_row<M>(even, odd);
        }
        finish<M, !loose<M> || (COUNT > 2)>(out, odd, even);
    }

    // What elements are below, minus a: minus a, and for sums of products only, because 0 gives that bound itself.
    template <class M> CUZKOPS_FN static void subtract_from_bound(std::uint64_t* out, const std::uint64_t* a) {
        Words<M> t;
        CarryChain chain;
        t.word[0] = chain.sub_cc(BoundHalf<M>{}(0), half(a, 0));
        CUZKOPS_UNROLL for (int j = 1; j < n<M>; j++) t.word[j] = chain.subc_cc(BoundHalf<M>{}(j), half(a, j));
        store(out, t);
    }

    // Each product of two different words once, doubled: 78 products instead of 144 for Fp, and the reduction.
    template <class M> CUZKOPS_BIG_FN static void square(std::uint64_t* out, const std::uint64_t* a) {
        if constexpr (sparse<M>) {
            mul<M>(out, a, a); // its reduction is cheap only row by row
        } else {
            std::uint32_t wide[2 * n<M>];
            square_wide<M>(wide, words_of<M>(a));
            reduce_words<M>(out, wide);
        }
    }

    template <class M>
    CUZKOPS_BIG_FN static void multiply_wide(std::uint64_t* out, const std::uint64_t* a, const std::uint64_t* b) {
        const Words<M> x = words_of<M>(a);
        std::uint32_t even[2 * n<M>], odd[2 * n<M>]; // word j of odd is at j + 1
        CUZKOPS_UNROLL for (int j = 0; j < n<M>; j += 2) {
            product(even + j, x.word[j], half(b, 0));
            product(odd + j, x.word[j + 1], half(b, 0));
        }
        CUZKOPS_UNROLL for (int i = 1; i < n<M>; i++) {
            std::uint32_t* same = i % 2 == 0 ? even + i : odd + i - 1; // takes the even words of a
            std::uint32_t* other = i % 2 == 0 ? odd + i : even + i + 1;
            const std::uint32_t y = half(b, i);
            CarryChain chain;
            same[0] = chain.mad_lo_cc(x.word[0], y, same[0]);
            same[1] = chain.madc_hi_cc(x.word[0], y, same[1]);
            CUZKOPS_UNROLL for (int j = 2; j < n<M>; j += 2) {
                same[j] = chain.madc_lo_cc(x.word[j], y, same[j]);
                same[j + 1] = chain.madc_hi_cc(x.word[j], y, same[j + 1]);
            }
            same[n<M>] = chain.addc(0, 0); // the first that is written there
            other[0] = chain.mad_lo_cc(x.word[1], y, other[0]);
            other[1] = chain.madc_hi_cc(x.word[1], y, other[1]);
            CUZKOPS_UNROLL for (int j = 2; j < n<M> - 2; j += 2) {
                other[j] = chain.madc_lo_cc(x.word[j + 1], y, other[j]);
                other[j + 1] = chain.madc_hi_cc(x.word[j + 1], y, other[j + 1]);
            }
            const std::uint32_t carried = i == 1 ? 0 : other[n<M> - 2]; // by the chain `same` of the row before
            other[n<M> - 2] = chain.madc_lo_cc(x.word[n<M> - 1], y, carried);
            other[n<M> - 1] = chain.madc_hi(x.word[n<M> - 1], y, 0);
        }
        CarryChain chain;
        std::uint32_t sum[2 * n<M>];
        sum[0] = even[0];
        sum[1] = chain.add_cc(even[1], odd[0]);
        CUZKOPS_UNROLL for (int j = 2; j < 2 * n<M>; j++) sum[j] = chain.addc_cc(even[j], odd[j - 1]);
        CUZKOPS_UNROLL for (int j = 0; j < 2 * M::N; j++) out[j] = joined(sum[2 * j], sum[2 * j + 1]);
    }

    template <class M>
    CUZKOPS_FN static void subtract_wide(std::uint64_t* out, const std::uint64_t* a, const std::uint64_t* b) {
        std::uint32_t low[n<M>];
        Words<M> high;
        CarryChain chain;
        low[0] = chain.sub_cc(half(a, 0), half(b, 0));
        CUZKOPS_UNROLL for (int j = 1; j < n<M>; j++) low[j] = chain.subc_cc(half(a, j), half(b, j));
        CUZKOPS_UNROLL for (int j = 0; j < n<M>; j++)
            high.word[j] = chain.subc_cc(half(a, n<M> + j), half(b, n<M> + j));
        add_masked<M>(high, chain.subc(0, 0), ModulusHalf<M>{});
        CUZKOPS_UNROLL for (int j = 0; j < M::N; j++) out[j] = joined(low[2 * j], low[2 * j + 1]);
        store(out + M::N, high);
    }

    template <class M> CUZKOPS_BIG_FN static void reduce(std::uint64_t* out, const std::uint64_t* wide) {
        std::uint32_t words[2 * n<M>];
        CUZKOPS_UNROLL for (int j = 0; j < 2 * n<M>; j++) words[j] = half(wide, j);
        reduce_words<M>(out, words);
    }

    // What a is where elements are below one modulus.
    template <class M> CUZKOPS_FN static void make_canonical(std::uint64_t* out, const std::uint64_t* a) {
        if constexpr (loose<M>) subtract_once<M>(out, words_of<M>(a), ModulusHalf<M>{});
        else
            for (int j = 0; j < M::N; j++) out[j] = a[j];
    }

private:
    template <class M> static constexpr bool loose = LOOSE && M::N == 6;
    template <class M> static constexpr int n = 2 * M::N;
    template <class M> struct Words {
        std::uint32_t word[n<M>];
    };
    // 2^64 - 2^32 + 1 in the low words, as of Fr.
    template <class M> static constexpr bool sparse = M::modulus(0) == 0xffffffff00000001ull;

    CUZKOPS_FN static std::uint32_t half(const std::uint64_t* words, int j) {
        return static_cast<std::uint32_t>(words[j / 2] >> (32 * (j % 2)));
    }
    CUZKOPS_FN static std::uint64_t joined(std::uint32_t low, std::uint32_t high) {
        return static_cast<std::uint64_t>(high) << 32 | low;
    }
    template <class M> CUZKOPS_FN static constexpr std::uint32_t modulus_half(int j) {
        return static_cast<std::uint32_t>(M::modulus(j / 2) >> (32 * (j % 2)));
    }
    template <class M> struct ModulusHalf {
        CUZKOPS_FN constexpr std::uint32_t operator()(int j) const { return modulus_half<M>(j); }
    };
    template <class M> struct BoundHalf { // of what elements are below
        CUZKOPS_FN constexpr std::uint32_t operator()(int j) const {
            if constexpr (!loose<M>) return modulus_half<M>(j);
            else return modulus_half<M>(j) << 1 | (j == 0 ? 0 : modulus_half<M>(j - 1) >> 31);
        }
    };
    template <class M> CUZKOPS_FN static Words<M> words_of(const std::uint64_t* a) {
        Words<M> out;
        CUZKOPS_UNROLL for (int j = 0; j < n<M>; j++) out.word[j] = half(a, j);
        return out;
    }
    template <class T> CUZKOPS_FN static void store(std::uint64_t* out, const T& t) {
        CUZKOPS_UNROLL for (int j = 0; j < static_cast<int>(sizeof t.word / 8); j++)
            out[j] = joined(t.word[2 * j], t.word[2 * j + 1]);
    }
    CUZKOPS_FN static void product(std::uint32_t* pair, std::uint32_t a, std::uint32_t b) {
        const std::uint64_t both = static_cast<std::uint64_t>(a) * b;
        pair[0] = static_cast<std::uint32_t>(both);
        pair[1] = static_cast<std::uint32_t>(both >> 32);
    }

    // In the row functions the sum is even + 2^32 odd, and below 2^(32 (n + 1)).

    // sum = a b
    template <class M>
    CUZKOPS_FN static void first_row(Words<M>& even, Words<M>& odd, const Words<M>& a, std::uint32_t b) {
        CUZKOPS_UNROLL for (int j = 0; j < n<M>; j += 2) {
            product(even.word + j, a.word[j], b);
            product(odd.word + j, a.word[j + 1], b);
        }
    }

    // sum += a b
    template <class M>
    CUZKOPS_FN static void add_row(Words<M>& even, Words<M>& odd, const Words<M>& a, std::uint32_t b) {
        CarryChain chain;
        odd.word[0] = chain.mad_lo_cc(a.word[1], b, odd.word[0]);
        odd.word[1] = chain.madc_hi_cc(a.word[1], b, odd.word[1]);
        CUZKOPS_UNROLL for (int j = 2; j < n<M>; j += 2) {
            odd.word[j] = chain.madc_lo_cc(a.word[j + 1], b, odd.word[j]);
            odd.word[j + 1] = chain.madc_hi_cc(a.word[j + 1], b, odd.word[j + 1]);
        }
        add_even<M>(even, odd, a, b);
    }

    // sum = sum / 2^32 + a b, the lowest word of the sum being 0. The caller has exchanged even and odd: `odd` holds what
    // is still to be moved down by two words; its word 1 has become word 0 of the sum.
    template <class M>
    CUZKOPS_FN static void shifted_row(Words<M>& even, Words<M>& odd, const Words<M>& a, std::uint32_t b) {
        CarryChain chain;
        even.word[0] = chain.add_cc(even.word[0], odd.word[1]);
        CUZKOPS_UNROLL for (int j = 0; j < n<M> - 2; j += 2) {
            odd.word[j] = chain.madc_lo_cc(a.word[j + 1], b, odd.word[j + 2]);
            odd.word[j + 1] = chain.madc_hi_cc(a.word[j + 1], b, odd.word[j + 3]);
        }
        odd.word[n<M> - 2] = chain.madc_lo_cc(a.word[n<M> - 1], b, 0);
        odd.word[n<M> - 1] = chain.madc_hi(a.word[n<M> - 1], b, 0);
        add_even<M>(even, odd, a, b);
    }

    // The products with the even words of a, and the carry out of them.
    template <class M>
    CUZKOPS_FN static void add_even(Words<M>& even, Words<M>& odd, const Words<M>& a, std::uint32_t b) {
        CarryChain chain;
        even.word[0] = chain.mad_lo_cc(a.word[0], b, even.word[0]);
        even.word[1] = chain.madc_hi_cc(a.word[0], b, even.word[1]);
        CUZKOPS_UNROLL for (int j = 2; j < n<M>; j += 2) {
            even.word[j] = chain.madc_lo_cc(a.word[j], b, even.word[j]);
            even.word[j + 1] = chain.madc_hi_cc(a.word[j], b, even.word[j + 1]);
        }
        odd.word[n<M> - 1] = chain.addc(odd.word[n<M> - 1], 0);
    }

    // sum += q modulus, with the q that makes the lowest word 0. Of the sparse modulus the products with the two lowest
    // words need no multiplication: -1 / modulus mod 2^32 is -1, so that q is minus the lowest word of the sum, and
    // q times the words 1 and 2^32 - 1 is q, -q and q - 1 (0 where q is 0) in the words 0, 1 and 2.
    template <class M> CUZKOPS_FN static void reduce_row(Words<M>& even, Words<M>& odd) {
        if constexpr (sparse<M>) {
            const std::uint32_t lowest = even.word[0];
            CarryChain chain;
            const std::uint32_t q = chain.inverted(lowest) + 1;
            chain.sub_cc(0, lowest); // borrows unless q is 0
            const std::uint32_t above = chain.subc(q, 0);
            odd.word[0] = chain.add_cc(odd.word[0], lowest);
            odd.word[1] = chain.addc_cc(odd.word[1], above);
            CUZKOPS_UNROLL for (int j = 2; j < n<M>; j += 2) {
                odd.word[j] = chain.madc_lo_cc(modulus_half<M>(j + 1), q, odd.word[j]);
                odd.word[j + 1] = chain.madc_hi_cc(modulus_half<M>(j + 1), q, odd.word[j + 1]);
            }
            even.word[0] = chain.add_cc(lowest, q); // 0, and a carry unless q is 0
            even.word[1] = chain.addc_cc(even.word[1], 0);
            CUZKOPS_UNROLL for (int j = 2; j < n<M>; j += 2) {
                even.word[j] = chain.madc_lo_cc(modulus_half<M>(j), q, even.word[j]);
                even.word[j + 1] = chain.madc_hi_cc(modulus_half<M>(j), q, even.word[j + 1]);
            }
            odd.word[n<M> - 1] = chain.addc(odd.word[n<M> - 1], 0);
        } else {
            add_row<M>(even, odd, modulus_words<M>(), even.word[0] * static_cast<std::uint32_t>(M::INV));
        }
    }

    // What is left after the last row, whose lowest word is 0: below 2 moduli, 3 for sums of more than 2 loose products.
    template <class M, bool SUBTRACT = !loose<M>>
    CUZKOPS_FN static void finish(std::uint64_t* out, const Words<M>& even, const Words<M>& odd) {
        Words<M> sum;
        CarryChain chain;
        sum.word[0] = chain.add_cc(even.word[1], odd.word[0]);
        CUZKOPS_UNROLL for (int j = 1; j < n<M> - 1; j++)
            sum.word[j] = chain.addc_cc(even.word[j + 1], odd.word[j]);
        sum.word[n<M> - 1] = chain.addc(odd.word[n<M> - 1], 0);
        if constexpr (SUBTRACT) subtract_once<M>(out, sum, BoundHalf<M>{});
        else store(out, sum);
    }

    // a^2 over 2 n words. The products of different words, a[i] a[j] with j > i, count twice: row i takes a[i] times the
    // words of 2 (a >> 32 (i + 1)), which are those of 2 a except for the bit that comes into the lowest one. a < 2^(32 n - 1).
    template <class M> CUZKOPS_FN static void square_wide(std::uint32_t* wide, const Words<M>& a) {
        Words<M> lowest, twice;
        CUZKOPS_UNROLL for (int j = 1; j < n<M>; j++) {
            lowest.word[j] = a.word[j] << 1;
            twice.word[j] = lowest.word[j] | a.word[j - 1] >> 31;
        }
        std::uint32_t even[2 * n<M> + 1] = {}, odd[2 * n<M>] = {}; // word j of odd is at j + 1
        CUZKOPS_UNROLL for (int i = 0; i < n<M>; i++) {
            const std::uint32_t x = a.word[i];
            CarryChain chain;
            even[2 * i] = chain.mad_lo_cc(x, x, even[2 * i]);
            even[2 * i + 1] = chain.madc_hi_cc(x, x, even[2 * i + 1]);
            CUZKOPS_UNROLL for (int j = 2; j < n<M>; j += 2)
                if (i + j < n<M>) {
                    even[2 * i + j] = chain.madc_lo_cc(x, twice.word[i + j], even[2 * i + j]);
                    even[2 * i + j + 1] = chain.madc_hi_cc(x, twice.word[i + j], even[2 * i + j + 1]);
                }
            if (i % 2 == 0) even[n<M> + i] = chain.addc(0, 0); // the row ended at word n - 2 of a
            if (i + 1 == n<M>) break;
            odd[2 * i] = chain.mad_lo_cc(x, lowest.word[i + 1], odd[2 * i]);
            odd[2 * i + 1] = chain.madc_hi_cc(x, lowest.word[i + 1], odd[2 * i + 1]);
            CUZKOPS_UNROLL for (int j = 2; j < n<M>; j += 2)
                if (i + j + 1 < n<M>) {
                    odd[2 * i + j] = chain.madc_lo_cc(x, twice.word[i + j + 1], odd[2 * i + j]);
                    odd[2 * i + j + 1] = chain.madc_hi_cc(x, twice.word[i + j + 1], odd[2 * i + j + 1]);
                }
            if (i % 2 == 1) odd[n<M> + i - 1] = chain.addc(0, 0);
        }
        CarryChain chain;
        wide[0] = even[0];
        wide[1] = chain.add_cc(even[1], odd[0]);
        CUZKOPS_UNROLL for (int j = 2; j < 2 * n<M> - 1; j++) wide[j] = chain.addc_cc(even[j], odd[j - 1]);
        wide[2 * n<M> - 1] = chain.addc(even[2 * n<M> - 1], odd[2 * n<M> - 2]);
    }

    // out = wide / R, wide < R modulus.
    template <class M> CUZKOPS_FN static void reduce_words(std::uint64_t* out, const std::uint32_t* wide) {
        static_assert(!sparse<M>, "the rows of the sparse modulus are not written for this");
        Words<M> even, odd = {};
        CUZKOPS_UNROLL for (int j = 0; j < n<M>; j++) even.word[j] = wide[j];
        reduce_row<M>(even, odd);
        CUZKOPS_UNROLL for (int i = 1; i < n<M>; i += 2) {
            shifted_reduce_row<M>(odd, even);
            if (i + 1 < n<M>) shifted_reduce_row<M>(even, odd);
        }
        Words<M> sum;
        CarryChain chain;
        sum.word[0] = chain.add_cc(odd.word[1], even.word[0]);
        CUZKOPS_UNROLL for (int j = 1; j < n<M> - 1; j++) sum.word[j] = chain.addc_cc(odd.word[j + 1], even.word[j]);
        sum.word[n<M> - 1] = chain.addc(even.word[n<M> - 1], 0);
        sum.word[0] = chain.add_cc(sum.word[0], wide[n<M>]);
        CUZKOPS_UNROLL for (int j = 1; j < n<M>; j++) sum.word[j] = chain.addc_cc(sum.word[j], wide[n<M> + j]);
        if constexpr (loose<M>) store(out, sum);
        else subtract_once<M>(out, sum, BoundHalf<M>{});
    }

    // shifted_row with the modulus, and the factor that makes the lowest word 0.
    template <class M> CUZKOPS_FN static void shifted_reduce_row(Words<M>& even, Words<M>& odd) {
        CarryChain chain;
        even.word[0] = chain.add_cc(even.word[0], odd.word[1]);
        const std::uint32_t q = even.word[0] * static_cast<std::uint32_t>(M::INV);
        CUZKOPS_UNROLL for (int j = 0; j < n<M> - 2; j += 2) {
            odd.word[j] = chain.madc_lo_cc(modulus_half<M>(j + 1), q, odd.word[j + 2]);
            odd.word[j + 1] = chain.madc_hi_cc(modulus_half<M>(j + 1), q, odd.word[j + 3]);
        }
        odd.word[n<M> - 2] = chain.madc_lo_cc(modulus_half<M>(n<M> - 1), q, 0);
        odd.word[n<M> - 1] = chain.madc_hi(modulus_half<M>(n<M> - 1), q, 0);
        add_even<M>(even, odd, modulus_words<M>(), q);
    }

    template <class M> CUZKOPS_FN static Words<M> modulus_words() {
        Words<M> out;
        CUZKOPS_UNROLL for (int j = 0; j < n<M>; j++) out.word[j] = modulus_half<M>(j);
        return out;
    }

    // out = t minus the number whose words `half` gives, or t where it is smaller.
    template <class M, class Half> CUZKOPS_FN static void subtract_once(std::uint64_t* out, const Words<M>& t, Half half) {
        Words<M> reduced;
        CarryChain chain;
        reduced.word[0] = chain.sub_cc(t.word[0], half(0));
        CUZKOPS_UNROLL for (int j = 1; j < n<M>; j++) reduced.word[j] = chain.subc_cc(t.word[j], half(j));
        const bool keep = chain.subc(0, 0) != 0;
        CUZKOPS_UNROLL for (int j = 0; j < n<M>; j++) reduced.word[j] = keep ? t.word[j] : reduced.word[j];
        store(out, reduced);
    }
    // t += the number whose words `half` gives, where mask is all ones.
    template <class M, class Half> CUZKOPS_FN static void add_masked(Words<M>& t, std::uint32_t mask, Half half) {
        CarryChain chain;
        t.word[0] = chain.add_cc(t.word[0], half(0) & mask);
        CUZKOPS_UNROLL for (int j = 1; j < n<M>; j++) t.word[j] = chain.addc_cc(t.word[j], half(j) & mask);
    }
};

struct Carry32 : Chains32<false> {};
struct Carry32Loose : Chains32<true> {};

} // namespace cuzkops
