// Transforms with any order, root and coset, and the H scalars of Groth16.
#include <chrono>
#include <cstring>
#include <utility>

#include "transform.hpp"

namespace cuzkops {
namespace {

enum Order : unsigned { REVERSED_IN = 1, REVERSED_OUT = 2 };

// Multiplies element i, or reversed(i) where `is_reversed`, by scale shift^i, with the powers from two short tables.
template <class Fr>
void scale_by_powers(Fr* values, unsigned log2_n, bool is_reversed, const Fr& shift, const Fr& scale, int threads) {
    const std::size_t n = std::size_t{1} << log2_n;
    if (shift == Fr::one()) {
        if (scale == Fr::one()) return;
        over_range(n, threads, 4096, [&](std::size_t begin, std::size_t end) {
            for (std::size_t i = begin; i < end; i++) values[i] = values[i] * scale;
        });
        return;
    }
    const unsigned log2_low = log2_n / 2;
    const std::size_t n_low = std::size_t{1} << log2_low, n_high = std::size_t{1} << (log2_n - log2_low);
    const std::unique_ptr<Fr[]> low = elements<Fr>(n_low), high = elements<Fr>(n_high);
    low[0] = Fr::one();
    for (std::size_t i = 1; i < n_low; i++) low[i] = low[i - 1] * shift;
    const Fr step = low[n_low - 1] * shift;
    high[0] = scale;
    for (std::size_t i = 1; i < n_high; i++) high[i] = high[i - 1] * step;
    over_range(n, threads, 4096, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; i++) {
            const std::size_t power = is_reversed ? reversed(i, log2_n) : i;
            values[i] = values[i] * (low[power & (n_low - 1)] * high[power >> log2_low]);
        }
    });
}

template <class Fr>
int ntt(const std::uint64_t* in, std::uint64_t* out, unsigned log2_n, bool inverse, unsigned order, int generator,
        const std::uint64_t* shift_words, int threads) {
    if (threads < 1 || log2_n > Constants::FR_TWO_ADICITY || (generator != 5 && generator != 7)) return BAD_ARGUMENT;
    const std::size_t n = std::size_t{1} << log2_n;
    Fr* values = reinterpret_cast<Fr*>(out);
    if (in != out) std::memcpy(out, in, n * sizeof(Fr));
    const Fr shift = Fr::load(shift_words);
    const bool reversed_in = order & REVERSED_IN, reversed_out = order & REVERSED_OUT;
    if (!inverse) scale_by_powers(values, log2_n, reversed_in, shift, Fr::one(), threads);
    const Factors<Fr> factors(generator, n / 2, threads);
    const Transform<Fr> transform(factors, log2_n, inverse, threads);
    if (reversed_in && reversed_out) bit_reverse(values, log2_n, threads);
    if (reversed_in && !reversed_out)
        transform.from_reversed(values);
    else
        transform.to_reversed(values);
    if (!reversed_in && !reversed_out) bit_reverse(values, log2_n, threads);
    if (inverse) scale_by_powers(values, log2_n, reversed_out, shift.inverse(), inverse_of_size<Fr>(log2_n), threads);
    return OK;
}

std::uint64_t now_ns() {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count());
}

// c = a o b; of each n times the coefficients, times w_2n^i, then n times the values on the odd points; a o b - c. The
// factor w_2n^i of coefficient i, which stands at reversed(i), is entry reversed(i) of the table. The divisions by n are
// part of the last step: n^2 of the product, n of c.
template <class Fr>
int h(const std::uint64_t* a_in, const std::uint64_t* b_in, std::uint64_t* out, unsigned log2_n, int threads,
      std::uint64_t* ntt_ns, std::uint64_t* pointwise_ns) {
    if (threads < 1 || log2_n >= Constants::FR_TWO_ADICITY) return BAD_ARGUMENT;
    const std::size_t n = std::size_t{1} << log2_n;
    const std::unique_ptr<Fr[]> a = elements<Fr>(n), b = elements<Fr>(n);
    Fr* c = reinterpret_cast<Fr*>(out);
    const std::uint64_t start = now_ns();
    over_range(n, threads, 4096, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; i++) {
            a[i] = Fr::load(a_in + 4 * i);
            b[i] = Fr::load(b_in + 4 * i);
            c[i] = a[i] * b[i];
        }
    });
    const std::uint64_t transforms = now_ns();
    const Factors<Fr> factors(5, n, threads);
    const Transform<Fr> to_coefficients(factors, log2_n, true, threads), to_values(factors, log2_n, false, threads);
    for (Fr* values : {a.get(), b.get(), c}) {
        to_coefficients.to_reversed(values);
        over_range(n, threads, 4096, [&](std::size_t begin, std::size_t end) {
            for (std::size_t i = begin; i < end; i++) values[i] = values[i] * factors[i];
        });
        to_values.from_reversed(values);
    }
    const std::uint64_t last = now_ns();
    const Fr once = inverse_of_size<Fr>(log2_n), plain = once.to_plain(); // 1 / n; a product with `plain` is plain
    over_range(n, threads, 4096, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; i++) c[i] = (a[i] * b[i] * once - c[i]) * plain;
    });
    *ntt_ns = last - transforms;
    *pointwise_ns = transforms - start + now_ns() - last;
    return OK;
}

enum VectorOperation : int { ADD = 0, SUBTRACT, MULTIPLY };

template <class Fr>
int combine(int operation, const std::uint64_t* a, const std::uint64_t* b, std::size_t n, int threads,
            std::uint64_t* out) {
    if (threads < 1 || operation < ADD || operation > MULTIPLY) return BAD_ARGUMENT;
    over_range(n, threads, 4096, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = 4 * begin; i < 4 * end; i += 4) {
            const Fr x = Fr::load(a + i), y = Fr::load(b + i);
            (operation == ADD ? x + y : operation == SUBTRACT ? x - y : x * y).store(out + i);
        }
    });
    return OK;
}

} // namespace
} // namespace cuzkops

using namespace cuzkops;

// in and out: 2^log2_n Montgomery elements, may be the same memory. order: 1 the input, 2 the output is in bit-reversed
// order. shift: one Montgomery element, not 0: values are those at shift w^i, w the root made from generator (5 or 7).
CUZKOPS_EXPORT int cuzkops_ntt(int leaf, const std::uint64_t* in, std::uint64_t* out, unsigned log2_n, int inverse,
                               unsigned order, int generator, const std::uint64_t* shift, int threads) {
    return with_leaf(leaf, [&](auto chosen) {
        return ntt<FrOf<decltype(chosen)>>(in, out, log2_n, inverse != 0, order, generator, shift, threads);
    });
}

// a, b: 2^log2_n Montgomery values on the domain; out: as many plain scalars, other memory than a and b.
CUZKOPS_EXPORT int cuzkops_h(int leaf, const std::uint64_t* a, const std::uint64_t* b, std::uint64_t* out,
                             unsigned log2_n, int threads, std::uint64_t* ntt_ns, std::uint64_t* pointwise_ns) {
    return with_leaf(leaf, [&](auto chosen) {
        return h<FrOf<decltype(chosen)>>(a, b, out, log2_n, threads, ntt_ns, pointwise_ns);
    });
}

// out[i] = a[i] + b[i] (operation 0), a[i] - b[i] (1) or a[i] b[i] (2) of n Montgomery elements of Fr; any may be the same.
CUZKOPS_EXPORT int cuzkops_combine(int leaf, int operation, const std::uint64_t* a, const std::uint64_t* b,
                                   std::size_t n, int threads, std::uint64_t* out) {
    return with_leaf(leaf,
                     [&](auto chosen) { return combine<FrOf<decltype(chosen)>>(operation, a, b, n, threads, out); });
}
