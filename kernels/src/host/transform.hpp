// Number-theoretic transforms over Fr in two halves that need no bit reversal between them: natural order in and bit-
// reversed order out, and the other way round. Both take their factors from one table in bit-reversed order, in which a
// block of a layer has a single factor: Cooley, Tukey, "An algorithm for the machine calculation of complex Fourier
// series", 1965, with the order of factors of Harvey, "Faster arithmetic for number-theoretic transforms", 2014.
#pragma once
#include <memory>

#include "abi.hpp"
#include "pool.hpp"

namespace cuzkops {

// Elements that stay in a core's second-level cache: 256 KiB of 512.
inline constexpr unsigned LOG2_BLOCK = 13;

template <class T> std::unique_ptr<T[]> elements(std::size_t n) { return std::unique_ptr<T[]>(new T[n]); }

inline std::size_t reversed(std::size_t i, unsigned log2_n) {
    std::size_t out = 0;
    for (unsigned bit = 0; bit < log2_n; bit++) out |= (i >> bit & 1) << (log2_n - 1 - bit);
    return out;
}

// The 2^log2_order-th root of unity made from a generator, 5 or 7.
template <class Fr> Fr root_of_order(int generator, unsigned log2_order) {
    Fr root = generator == 7 ? Fr::constant(Constants::root7) : Fr::constant(Constants::root5);
    for (unsigned k = Constants::FR_TWO_ADICITY; k > log2_order; k--) root = root.square();
    return root;
}

// Powers of roots in bit-reversed order: factor(i) = w_(2m)^(reversed i) for any power of two m > i.
template <class Fr> class Factors {
public:
    // For transforms of up to 2 n elements. Cost: n products.
    Factors(int generator, std::size_t n, int threads) : table_(elements<Fr>(std::max<std::size_t>(1, n))) {
        table_[0] = Fr::one();
        unsigned log2_order = 2;
        for (std::size_t half = 1; half < n; half *= 2, log2_order++) {
            const Fr root = root_of_order<Fr>(generator, log2_order);
            over_range(half, threads, 4096, [&](std::size_t begin, std::size_t end) {
                for (std::size_t i = begin; i < end; i++) table_[half + i] = table_[i] * root;
            });
        }
    }
    const Fr& operator[](std::size_t i) const { return table_[i]; }

    // 1 / factor(i). The exponents of [m, 2m) are symmetric about a quarter turn: 1 / w^e = -w^(half turn - e).
    Fr inverse(std::size_t i) const {
        if (i == 0) return table_[0];
        const std::size_t top = std::size_t{1} << (63 - __builtin_clzll(i));
        return table_[3 * top - 1 - i].negated();
    }

private:
    std::unique_ptr<Fr[]> table_;
};

template <class Fr> class Transform {
public:
    Transform(const Factors<Fr>& factors, unsigned log2_n, bool inverse, int threads)
        : factors_(factors), log2_n_(log2_n), inverse_(inverse), threads_(threads) {}

    // In place, natural order in, bit-reversed out: out[i] = sum_j in[j] w^(j reversed(i)), w^-1 for the inverse, which is
    // not divided by n. n / 2 log2(n) products. Layers from the largest blocks down: two layers a pass over memory until
    // a block fits the cache, the rest block by block.
    void to_reversed(Fr* values) const {
        unsigned log2_size = log2_n_;
        while (log2_size > LOG2_BLOCK) {
            const unsigned layers = std::min(2u, log2_size - LOG2_BLOCK);
            pass(log2_size, layers, [&](std::size_t block, std::size_t begin, std::size_t end) {
                if (layers == 2)
                    two_layers_down(values, log2_size, block, begin, end);
                else
                    layer_down(values, log2_size, block, begin, end);
            });
            log2_size -= layers;
        }
        over_blocks(log2_size, [&](std::size_t block) {
            for (unsigned inner = log2_size; inner > 0; inner--) {
                const std::size_t n_inner = std::size_t{1} << (log2_size - inner), half = std::size_t{1} << (inner - 1);
                for (std::size_t b = block * n_inner; b < (block + 1) * n_inner; b++) layer_down(values, inner, b, 0, half);
            }
        });
    }

    // In place, bit-reversed order in, natural out: out[i] = sum_j in[reversed j] w^(i j): the transpose of the above.
    void from_reversed(Fr* values) const {
        const unsigned log2_block = std::min(log2_n_, LOG2_BLOCK);
        over_blocks(log2_block, [&](std::size_t block) {
            for (unsigned inner = 1; inner <= log2_block; inner++) {
                const std::size_t n_inner = std::size_t{1} << (log2_block - inner), half = std::size_t{1} << (inner - 1);
                for (std::size_t b = block * n_inner; b < (block + 1) * n_inner; b++) layer_up(values, inner, b, 0, half);
            }
        });
        for (unsigned log2_size = log2_block; log2_size < log2_n_;) {
            const unsigned layers = std::min(2u, log2_n_ - log2_size);
            log2_size += layers;
            pass(log2_size, layers, [&](std::size_t block, std::size_t begin, std::size_t end) {
                if (layers == 2)
                    two_layers_up(values, log2_size, block, begin, end);
                else
                    layer_up(values, log2_size, block, begin, end);
            });
        }
    }

private:
    const Factors<Fr>& factors_;
    const unsigned log2_n_;
    const bool inverse_;
    const int threads_;

    Fr factor(std::size_t block) const { return inverse_ ? factors_.inverse(block) : factors_[block]; }

    // Calls body(block) for each block of 2^log2_size elements.
    template <class Body> void over_blocks(unsigned log2_size, Body body) const {
        over_tasks(std::size_t{1} << (log2_n_ - log2_size), threads_, [&](std::size_t block, int) { body(block); });
    }

    // Calls body(block, begin, end) for pieces [begin, end) of the positions of a block of 2^log2_size elements that are
    // worked on together: a half of the block for one layer, a quarter for two.
    template <class Body> void pass(unsigned log2_size, unsigned layers, Body body) const {
        const std::size_t blocks = std::size_t{1} << (log2_n_ - log2_size);
        const std::size_t positions = std::size_t{1} << (log2_size - layers);
        const std::size_t piece = std::min<std::size_t>(positions, 2048), pieces = positions / piece;
        over_tasks(blocks * pieces, threads_, [&](std::size_t task, int) {
            const std::size_t begin = task % pieces * piece;
            body(task / pieces, begin, begin + piece);
        });
    }

    // (x, y) becomes (x + f y, x - f y).
    static void down(Fr& x, Fr& y, const Fr& f) {
        const Fr product = y * f;
        y = x - product;
        x = x + product;
    }
    // (x, y) becomes (x + y, f (x - y)).
    static void up(Fr& x, Fr& y, const Fr& f) {
        const Fr difference = x - y;
        x = x + y;
        y = difference * f;
    }

    void layer_down(Fr* values, unsigned log2_size, std::size_t block, std::size_t begin, std::size_t end) const {
        const std::size_t half = std::size_t{1} << (log2_size - 1);
        Fr* x = values + (block << log2_size);
        const Fr f = factor(block);
        for (std::size_t j = begin; j < end; j++) down(x[j], x[j + half], f);
    }
    void two_layers_down(Fr* values, unsigned log2_size, std::size_t block, std::size_t begin, std::size_t end) const {
        const std::size_t quarter = std::size_t{1} << (log2_size - 2);
        Fr* x = values + (block << log2_size);
        const Fr f = factor(block), low = factor(2 * block), high = factor(2 * block + 1);
        for (std::size_t j = begin; j < end; j++) {
            Fr &a = x[j], &b = x[j + quarter], &c = x[j + 2 * quarter], &d = x[j + 3 * quarter];
            down(a, c, f);
            down(b, d, f);
            down(a, b, low);
            down(c, d, high);
        }
    }
    void layer_up(Fr* values, unsigned log2_size, std::size_t block, std::size_t begin, std::size_t end) const {
        const std::size_t half = std::size_t{1} << (log2_size - 1);
        Fr* x = values + (block << log2_size);
        const Fr f = factor(block);
        for (std::size_t j = begin; j < end; j++) up(x[j], x[j + half], f);
    }
    void two_layers_up(Fr* values, unsigned log2_size, std::size_t block, std::size_t begin, std::size_t end) const {
        const std::size_t quarter = std::size_t{1} << (log2_size - 2);
        Fr* x = values + (block << log2_size);
        const Fr f = factor(block), low = factor(2 * block), high = factor(2 * block + 1);
        for (std::size_t j = begin; j < end; j++) {
            Fr &a = x[j], &b = x[j + quarter], &c = x[j + 2 * quarter], &d = x[j + 3 * quarter];
            up(a, b, low);
            up(c, d, high);
            up(a, c, f);
            up(b, d, f);
        }
    }
};

template <class Fr> void bit_reverse(Fr* values, unsigned log2_n, int threads) {
    if (log2_n == 0) return;
    over_range(std::size_t{1} << log2_n, threads, 4096, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; i++) {
            const std::size_t other = reversed(i, log2_n);
            if (i < other) std::swap(values[i], values[other]); // each pair belongs to its smaller index
        }
    });
}

template <class Fr> Fr inverse_of_size(unsigned log2_n) {
    Fr scale = Fr::one();
    for (unsigned k = 0; k < log2_n; k++) scale = scale * Fr::constant(Constants::half);
    return scale;
}

} // namespace cuzkops
