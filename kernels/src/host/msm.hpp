// Multi-scalar multiplication by buckets: Pippenger, "On the evaluation of powers and monomials", SIAM J. Comput. 9
// (1980). Scalars are split by an endomorphism (endomorphism.hpp) and recoded into signed digits of a window; for each
// window the points are sorted by digit, each bucket is added up in affine coordinates with shared inversions
// (batch_add.hpp), and the buckets d are summed d times each by running sums, again with shared inversions.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "abi.hpp"
#include "batch_add.hpp"
#include "endomorphism.hpp"
#include "pool.hpp"

namespace cuzkops {

// Window size and what follows from it. Digits are in [-2^(bits-1), 2^(bits-1)), so that they fit 16 bits.
struct Windows {
    unsigned bits, count;
    std::size_t n_buckets; // digits 1 to 2^(bits-1), whatever the sign
};

inline constexpr unsigned MIN_WINDOW_BITS = 4, MAX_WINDOW_BITS = 16; // 4: so that the top digit always fits

inline Windows windows_of(unsigned bits, unsigned scalar_bits) {
    return {bits, (scalar_bits + bits - 1) / bits, std::size_t{1} << (bits - 1)};
}

// The window with the fewest products for n_entries scalars of full length. In units of a product: an addition to a
// bucket costs 6, the last sum about 14 a bucket, and each inversion about 70 in G1 and 25 in G2.
inline Windows best_windows(std::size_t n_entries, unsigned scalar_bits, double inversion) {
    Windows best = windows_of(MIN_WINDOW_BITS, scalar_bits);
    double best_cost = HUGE_VAL;
    for (unsigned bits = MIN_WINDOW_BITS; bits <= MAX_WINDOW_BITS; bits++) {
        const Windows w = windows_of(bits, scalar_bits);
        const double n = static_cast<double>(n_entries), buckets = static_cast<double>(w.n_buckets);
        const double rounds = std::log2(n / buckets + 2) * std::ceil(n / 4096) + std::min(buckets, 64.0);
        const double cost = w.count * (6 * std::max(0.0, n - buckets) + 14 * buckets + inversion * rounds);
        if (cost < best_cost) {
            best = w;
            best_cost = cost;
        }
    }
    return best;
}

// Bits [from, from + count) of 4 limbs; bits above 256 are 0.
inline unsigned bits_of(const std::uint64_t* limbs, unsigned from, unsigned count) {
    const unsigned word = from / 64, shift = from % 64;
    std::uint64_t bits = limbs[word] >> shift;
    if (shift != 0 && word < 3) bits |= limbs[word + 1] << (64 - shift);
    return static_cast<unsigned>(bits & ((std::uint64_t{1} << count) - 1));
}

template <class T> std::unique_ptr<T[]> uninitialised(std::size_t n) { return std::unique_ptr<T[]>(new T[n]); }

// One multiplication: n points and scalars, on `threads` threads.
template <class F> class Msm {
    using Map = Endomorphism<F>;
    static constexpr std::size_t IMAGES = Map::IMAGES;
    static constexpr std::size_t GROUP = sizeof(F) > 64 ? 1024 : 2048; // points that a thread adds up at a time
    static constexpr std::size_t CHAINS = 64;                         // running sums at a time in a window

public:
    Msm(const std::uint64_t* points, const std::uint64_t* scalars, std::size_t n, int threads)
        : points_(points), scalars_(scalars), n_(n), threads_(threads), scratch_(static_cast<std::size_t>(threads)) {}

    Xyzz<F> sum() {
        if (n_ == 0) return Xyzz<F>::infinity();
        windows_ = best_windows(IMAGES * n_full_length(), Map::BITS, sizeof(F) > 64 ? 25 : 70);
        recode();
        sort();
        Xyzz<F> total = Xyzz<F>::infinity();
        for (std::size_t window = windows_.count; window-- > 0;) { // one at a time: all share the memory of the buckets
            for (unsigned i = 0; i < windows_.bits; i++) total = total.doubled();
            if (bucket_ends(window)[windows_.n_buckets] == 0) continue; // only digits 0
            add_buckets(window);
            total.add(window_sum());
        }
        return total;
    }

private:
    // What one thread works with.
    struct Scratch {
        std::unique_ptr<Affine<F>[]> points;
        std::vector<Run> runs;
        BatchAdder<F> adder;
    };
    struct Partial { // the sum of a part of a bucket, where a group ends inside it
        std::size_t bucket;
        Affine<F> sum;
    };

    const std::uint64_t *points_, *scalars_;
    const std::size_t n_;
    const int threads_;
    std::vector<Scratch> scratch_;
    Windows windows_{};
    std::unique_ptr<Affine<F>[]> images_;         // (IMAGES - 1) x n
    std::unique_ptr<std::int16_t[]> digits_;      // windows x IMAGES n; entry e is image e / n of point e % n
    std::unique_ptr<std::uint32_t[]> order_;      // windows x IMAGES n: 2 entry + (1 where its digit is negative)
    std::unique_ptr<std::uint32_t[]> bucket_end_; // windows x (buckets + 1): ends in order_; bucket b from [b] to [b + 1]
    std::vector<Affine<F>> buckets_;              // of the window at work

    std::size_t n_entries() const { return IMAGES * n_; }
    Affine<F> point(std::size_t i) const { return Affine<F>::load(points_ + Affine<F>::LIMBS * i); }

    // Scalars of more than a word: the others touch a window or two only, and windows are chosen without them.
    std::size_t n_full_length() const {
        std::size_t n = 0;
        for (std::size_t i = 0; i < n_; i++) {
            const std::uint64_t* k = scalars_ + 4 * i;
            n += (k[1] | k[2] | k[3]) != 0;
        }
        return n;
    }

    // Images and digits. The digits of k are those of k + sum 2^(bits-1) 2^(bits w), each less 2^(bits-1).
    void recode() {
        images_ = uninitialised<Affine<F>>((IMAGES - 1) * n_);
        digits_ = uninitialised<std::int16_t>(windows_.count * n_entries());
        std::uint64_t bias[4] = {};
        for (unsigned w = 0; w < windows_.count; w++) {
            const unsigned bit = windows_.bits * w + windows_.bits - 1;
            bias[bit / 64] |= std::uint64_t{1} << (bit % 64);
        }
        over_range(n_, threads_, 256, [&](std::size_t begin, std::size_t end) {
            for (std::size_t i = begin; i < end; i++) recode_point(i, bias);
        });
    }

    void recode_point(std::size_t i, const std::uint64_t* bias) {
        const Affine<F> p = point(i);
        const std::uint64_t* scalar = scalars_ + 4 * i;
        const bool nothing = (scalar[0] | scalar[1] | scalar[2] | scalar[3]) == 0 || p.is_infinity();
        i128 k[IMAGES] = {};
        if (!nothing) Map::split(k, scalar);
        for (std::size_t image = 0; image < IMAGES; image++) {
            if (image > 0 && k[image] != 0) images_[(image - 1) * n_ + i] = Map::image(p, static_cast<int>(image));
            const std::uint64_t sign = k[image] < 0 ? ~std::uint64_t{0} : 0;
            std::uint64_t limbs[4] = {static_cast<std::uint64_t>(k[image]), static_cast<std::uint64_t>(k[image] >> 64), sign,
                                      sign};
            add_limbs<4>(limbs, limbs, bias);
            std::int16_t* out = digits_.get() + image * n_ + i;
            for (unsigned w = 0; w < windows_.count; w++, out += n_entries())
                *out = static_cast<std::int16_t>(static_cast<int>(bits_of(limbs, windows_.bits * w, windows_.bits)) -
                                                 static_cast<int>(windows_.n_buckets));
        }
    }

    // Entries of each window in the order of their buckets: a counting sort.
    void sort() {
        order_ = uninitialised<std::uint32_t>(windows_.count * n_entries());
        bucket_end_ = uninitialised<std::uint32_t>(windows_.count * (windows_.n_buckets + 1));
        over_tasks(windows_.count, threads_, [&](std::size_t window, int) {
            const std::int16_t* digits = digits_.get() + window * n_entries();
            std::uint32_t* next = bucket_end_.get() + window * (windows_.n_buckets + 1);
            std::uint32_t* order = order_.get() + window * n_entries();
            std::memset(next, 0, (windows_.n_buckets + 1) * sizeof *next);
            for (std::size_t e = 0; e < n_entries(); e++) next[std::abs(int{digits[e]})]++;
            next[0] = 0; // digit 0 is in no bucket
            std::uint32_t begin = 0;
            for (std::size_t b = 1; b <= windows_.n_buckets; b++) {
                const std::uint32_t count = next[b];
                next[b] = begin;
                begin += count;
            }
            for (std::size_t e = 0; e < n_entries(); e++) {
                const int d = digits[e];
                if (d != 0) order[next[std::abs(d)]++] = static_cast<std::uint32_t>(2 * e + (d < 0));
            }
        });
        digits_.reset();
    }

    const std::uint32_t* bucket_ends(std::size_t window) const {
        return bucket_end_.get() + window * (windows_.n_buckets + 1);
    }

    void add_buckets(std::size_t window) {
        buckets_.assign(windows_.n_buckets, Affine<F>::infinity());
        const std::size_t n = bucket_ends(window)[windows_.n_buckets], n_groups = (n + GROUP - 1) / GROUP;
        std::vector<std::vector<Partial>> partials(n_groups); // in the order of buckets
        over_tasks(n_groups, threads_, [&](std::size_t group, int worker) {
            const std::size_t begin = group * GROUP;
            add_group(window, begin, std::min(n, begin + GROUP), partials[group],
                      scratch_[static_cast<std::size_t>(worker)]);
        });
        std::vector<Partial> all;
        for (const std::vector<Partial>& some : partials) all.insert(all.end(), some.begin(), some.end());
        join_partials(all);
    }

    Affine<F> signed_point(std::uint32_t order) const {
        const std::size_t entry = order >> 1;
        Affine<F> p = entry < n_ ? point(entry) : images_[entry - n_];
        if (order & 1) p.y = p.y.negated();
        return p;
    }

    void prefetch(std::uint32_t order) const {
        const std::size_t entry = order >> 1;
        const char* at = entry < n_ ? reinterpret_cast<const char*>(points_ + Affine<F>::LIMBS * entry)
                                    : reinterpret_cast<const char*>(&images_[entry - n_]);
        for (std::size_t offset = 0; offset < sizeof(Affine<F>); offset += 64) __builtin_prefetch(at + offset);
    }

    // Adds up the sorted entries [begin, end) of a window by buckets.
    void add_group(std::size_t window, std::size_t begin, std::size_t end, std::vector<Partial>& partials,
                   Scratch& scratch) {
        gather(order_.get() + window * n_entries(), begin, end, scratch);
        const std::uint32_t* ends = bucket_ends(window);
        const auto first = static_cast<std::size_t>(
            std::upper_bound(ends, ends + windows_.n_buckets + 1, static_cast<std::uint32_t>(begin)) - ends);
        scratch.runs.clear();
        const auto each_bucket = [&](auto body) { // body(bucket, begin, end): its entries that are here
            for (std::size_t b = first; b <= windows_.n_buckets && ends[b - 1] < end; b++) {
                const std::size_t from = std::max<std::size_t>(ends[b - 1], begin), to = std::min<std::size_t>(ends[b], end);
                if (from < to) body(b, from - begin, to - begin);
            }
        };
        each_bucket([&](std::size_t, std::size_t from, std::size_t to) {
            scratch.runs.push_back({static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to - from)});
        });
        reduce_runs(scratch.points.get(), scratch.runs, scratch.adder);
        each_bucket([&](std::size_t b, std::size_t from, std::size_t) {
            if (ends[b - 1] < begin || ends[b] > end)
                partials.push_back({b - 1, scratch.points[from]});
            else
                buckets_[b - 1] = scratch.points[from];
        });
    }

    void gather(const std::uint32_t* order, std::size_t begin, std::size_t end, Scratch& scratch) const {
        if (!scratch.points) scratch.points = uninitialised<Affine<F>>(GROUP);
        for (std::size_t i = begin; i < end; i++) {
            if (i + 8 < end) prefetch(order[i + 8]);
            scratch.points[i - begin] = signed_point(order[i]);
        }
    }

    // Adds up the parts of the buckets that several groups share.
    void join_partials(const std::vector<Partial>& partials) {
        if (partials.empty()) return;
        const std::unique_ptr<Affine<F>[]> points = uninitialised<Affine<F>>(partials.size());
        std::vector<Run> runs;
        for (std::size_t i = 0; i < partials.size(); i++) {
            points[i] = partials[i].sum;
            if (i == 0 || partials[i].bucket != partials[i - 1].bucket) runs.push_back({static_cast<std::uint32_t>(i), 0});
            runs.back().count++;
        }
        std::vector<Run> reduced = runs;
        reduce_runs(points.get(), reduced, scratch_[0].adder);
        for (const Run& run : runs) buckets_[partials[run.begin].bucket] = points[run.begin];
    }

    // sum_d d bucket[d] of the window at work, in 4 parts for the balance between threads.
    Xyzz<F> window_sum() {
        constexpr std::size_t PARTS = 4;
        Xyzz<F> sums[PARTS];
        const std::size_t size = windows_.n_buckets / PARTS;
        over_tasks(PARTS, threads_, [&](std::size_t part, int worker) {
            Scratch& scratch = scratch_[static_cast<std::size_t>(worker)];
            sums[part] = part_sum(&buckets_[part * size], size, part * size, scratch);
        });
        for (std::size_t part = 1; part < PARTS; part++) sums[0].add(sums[part]);
        return sums[0];
    }

    // sum of (from + d) bucket[d - 1] for d = 1 .. size. Chains of running sums over equal pieces, all chains a step at
    // a time: running += bucket, sum += running of the step before. Then the chains' sums in the same way.
    static Xyzz<F> part_sum(const Affine<F>* buckets, std::size_t size, std::size_t from, Scratch& scratch) {
        const std::size_t chains = std::min(size, CHAINS), length = size / chains;
        std::vector<Affine<F>> running(chains, Affine<F>::infinity()), sum = running;
        for (std::size_t step = 0; step <= length; step++) {
            for (std::size_t c = 0; c < chains; c++) {
                if (step > 0) scratch.adder.pairs.push_back({&sum[c], &running[c], &sum[c]});
                if (step < length)
                    scratch.adder.pairs.push_back({&running[c], &buckets[c * length + length - 1 - step], &running[c]});
            }
            scratch.adder.add();
        }
        Xyzz<F> later = Xyzz<F>::infinity(), pieces = later, total = later;
        for (std::size_t c = chains; c-- > 0;) {
            total.add(sum[c]);
            if (c + 1 < chains) pieces.add(later); // running[c] is needed c times
            later.add(running[c]);
        }
        total.add(pieces.times(length));
        total.add(later.times(from));
        return total;
    }
};

// Points in pieces, so that the memory that a call takes stays bounded: about 250 bytes a point in G1, 800 in G2.
template <class F>
int msm(const std::uint64_t* points, const std::uint64_t* scalars, std::size_t n, int threads, std::uint64_t* out) {
    if (threads < 1) return BAD_ARGUMENT;
    constexpr std::size_t PIECE = std::size_t{1} << (sizeof(F) > 64 ? 18 : 20);
    Xyzz<F> total = Xyzz<F>::infinity();
    for (std::size_t begin = 0; begin < n; begin += PIECE) {
        const std::uint64_t* some = points + Affine<F>::LIMBS * begin;
        total.add(Msm<F>(some, scalars + 4 * begin, std::min(PIECE, n - begin), threads).sum());
    }
    total.to_affine().store(out);
    return OK;
}

} // namespace cuzkops
