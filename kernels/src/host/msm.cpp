// Multi-scalar multiplication by buckets: Pippenger, "On the evaluation of powers and monomials", SIAM J. Comput. 9
// (1980), in the form of Bernstein, Doumen, Lange, Oosterwijk, "Faster batch forgery identification" (2012), section 4.
#include <cstring>
#include <memory>
#include <vector>

#include "abi.hpp"
#include "curve.hpp"
#include "parallel.hpp"

namespace cuzkops {
namespace {

constexpr unsigned SCALAR_BITS = 256; // whole limbs: right for any scalar, canonical or not
constexpr unsigned MAX_WINDOW_BITS = 16;

// Bits [from, from + count) of 4 limbs; bits above 256 are 0.
unsigned digit(const std::uint64_t* scalar, unsigned from, unsigned count) {
    const unsigned word = from / 64, shift = from % 64;
    std::uint64_t bits = scalar[word] >> shift;
    if (shift != 0 && word < 3) bits |= scalar[word + 1] << (64 - shift);
    return static_cast<unsigned>(bits & ((std::uint64_t{1} << count) - 1));
}

unsigned n_windows(unsigned bits) { return (SCALAR_BITS + bits - 1) / bits; }

// The window with the fewest products: n mixed additions of 10 and 2^(bits+1) full ones of 14 in each window.
unsigned best_window_bits(std::size_t n) {
    unsigned best = 1;
    double best_cost = 0;
    for (unsigned bits = 1; bits <= MAX_WINDOW_BITS; bits++) {
        const double buckets = static_cast<double>(std::size_t{1} << bits);
        const double cost = n_windows(bits) * (static_cast<double>(n) * 10 + 2 * buckets * 14);
        if (bits == 1 || cost < best_cost) {
            best = bits;
            best_cost = cost;
        }
    }
    return best;
}

// Sum of digit_i * P_i over points [begin, end) for the digits of one window. Adds each point to the bucket of its
// digit, then sum_d d * bucket[d] as a running sum from the top: 2 (2^bits - 1) full additions.
template <class F>
Xyzz<F> window_sum(const std::uint64_t* points, const std::uint64_t* scalars, std::size_t begin, std::size_t end,
                   unsigned from, unsigned bits, std::vector<Xyzz<F>>& buckets) {
    std::fill(buckets.begin(), buckets.end(), Xyzz<F>::infinity());
    for (std::size_t i = begin; i < end; i++) {
        const unsigned d = digit(scalars + 4 * i, from, bits);
        if (d != 0) buckets[d - 1].add(Affine<F>::load(points + Affine<F>::LIMBS * i));
    }
    Xyzz<F> running = Xyzz<F>::infinity(), sum = Xyzz<F>::infinity();
    for (std::size_t d = buckets.size(); d-- > 0;) {
        running.add(buckets[d]);
        sum.add(running);
    }
    return sum;
}

template <class F>
int msm(const std::uint64_t* points, const std::uint64_t* scalars, std::size_t n, int threads, std::uint64_t* out) {
    if (threads < 1) return BAD_ARGUMENT;
    const unsigned bits = best_window_bits(n);
    const std::size_t windows = n_windows(bits);
    // A task is one window over one chunk of the points; chunks only where the windows cannot feed the threads.
    std::size_t chunks = (2 * static_cast<std::size_t>(threads) + windows - 1) / windows;
    chunks = std::max<std::size_t>(1, std::min(chunks, n >> bits));
    const std::size_t step = (n + chunks - 1) / chunks;
    std::vector<Xyzz<F>> sums(windows * chunks, Xyzz<F>::infinity());
    std::vector<std::vector<Xyzz<F>>> buckets(static_cast<std::size_t>(threads));
    over_tasks(n == 0 ? 0 : windows * chunks, threads, [&](std::size_t task, int worker) {
        std::vector<Xyzz<F>>& own = buckets[static_cast<std::size_t>(worker)];
        own.resize((std::size_t{1} << bits) - 1);
        const std::size_t window = task % windows, begin = std::min(n, task / windows * step);
        sums[task] = window_sum<F>(points, scalars, begin, std::min(n, begin + step),
                                   static_cast<unsigned>(window) * bits, bits, own);
    });
    Xyzz<F> total = Xyzz<F>::infinity();
    for (std::size_t window = windows; window-- > 0;) {
        for (unsigned i = 0; i < bits; i++) total = total.doubled();
        for (std::size_t chunk = 0; chunk < chunks; chunk++) total.add(sums[chunk * windows + window]);
    }
    total.to_affine().store(out);
    return OK;
}

// Index of the first row that is not a valid affine point; n where all are.
template <class F> std::size_t first_invalid(const std::uint64_t* points, std::size_t n, int threads) {
    std::atomic<std::size_t> first{n};
    over_range(n, threads, 1024, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; i++) {
            if (Affine<F>::load(points + Affine<F>::LIMBS * i).is_valid()) continue;
            std::size_t known = first;
            while (i < known && !first.compare_exchange_weak(known, i)) {
            }
            return;
        }
    });
    return first;
}

} // namespace
} // namespace cuzkops

using namespace cuzkops;

// sum scalars[i] * points[i]: points affine, Montgomery; scalars plain, 4 limbs each; out is one affine point.
CUZKOPS_EXPORT int cuzkops_msm_g1(const std::uint64_t* points, const std::uint64_t* scalars, std::size_t n, int threads,
                                  std::uint64_t* out) {
    return guarded([&] { return msm<Fp>(points, scalars, n, threads, out); });
}
CUZKOPS_EXPORT int cuzkops_msm_g2(const std::uint64_t* points, const std::uint64_t* scalars, std::size_t n, int threads,
                                  std::uint64_t* out) {
    return guarded([&] { return msm<Fp2>(points, scalars, n, threads, out); });
}

// Writes the index of the first row that is not canonical or not on the curve, n where there is none.
CUZKOPS_EXPORT int cuzkops_first_invalid_g1(const std::uint64_t* points, std::size_t n, int threads,
                                            std::uint64_t* index) {
    return guarded([&] {
        *index = first_invalid<Fp>(points, n, threads);
        return OK;
    });
}
CUZKOPS_EXPORT int cuzkops_first_invalid_g2(const std::uint64_t* points, std::size_t n, int threads,
                                            std::uint64_t* index) {
    return guarded([&] {
        *index = first_invalid<Fp2>(points, n, threads);
        return OK;
    });
}
