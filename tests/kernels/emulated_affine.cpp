// kernels/src/cuda/msm_affine.cuh thread by thread on the host: what test_cuda_affine.py compiles and calls.
#include <algorithm>
#include <vector>

#include "../../kernels/src/cuda/msm_affine.cuh"

using namespace cuzkops;

namespace {
using Words = std::vector<std::uint32_t>;
using Limbs = std::vector<std::uint64_t>;

struct Rounds {
    AffineCut cut;
    std::uint32_t n_chains, capacity;
    std::uint32_t count = 0;
    Words words;
    Limbs prefixes, norms, products;

    Rounds(const AffineCut& all, std::uint32_t chains)
        : cut(all), n_chains(chains), capacity(all.n_entries / 2 + 1), words(3 * std::size_t{capacity}),
          prefixes(6 * std::size_t{capacity}), norms(6 * std::size_t{capacity}), products(6 * std::size_t{chains}) {}

    // Returns how many elements of the next level were not written exactly once.
    template <class F>
    std::uint64_t run(std::uint32_t chunk, std::uint32_t round, const NamedPoints<F>& source, const NamedPoints<F>& sums,
                      std::size_t n_places) {
        const PairList pairs{words.data(), capacity, &count};
        const std::uint64_t length = std::uint64_t{PLANNED} << (round + 1), until = cut.chunk_end(chunk);
        Words written(n_places);
        std::uint64_t n_elements = 0, n_wrong = 0;
        count = 0;
        for (std::uint64_t begin = cut.chunk_begin(chunk); begin < until; begin += length) {
            const std::uint64_t end = std::min(begin + length, until);
            const std::uint32_t first_bucket = cut.bucket_of(cut.chunk_begin(chunk), 0, cut.n_buckets);
            const std::uint32_t bucket = cut.bucket_of(begin, 0, cut.n_buckets), n_before = count;
            cut.for_each_pair(chunk, round, begin, end, first_bucket, bucket, [&](auto at, auto to, bool is_pair) {
                n_elements++;
                written.at(to)++;
                if (is_pair) pairs.set(count++, source.name(at), source.name(at + 1), to);
                else sums.put(to, source.point(source.name(at)));
            });
            n_wrong += cut.count_pairs(chunk, round, begin, end, bucket) != count - n_before;
        }
        const AffineRound<F> work{source, pairs, n_chains, prefixes.data(), norms.data(), products.data(), sums};
        using Round = AffineRound<F>;
        std::uint64_t buffer[Round::Xs::BYTES / 8];
        for (std::uint32_t chain = 0; chain < n_chains; chain++) work.go_forwards(chain, typename Round::Xs{buffer, 1});
        for (std::uint32_t chain = 0; chain < n_chains; chain++) work.invert(chain);
        for (std::uint32_t chain = 0; chain < n_chains; chain++) work.go_backwards(chain, typename Round::Points{buffer, 1});
        return n_wrong + n_elements - static_cast<std::uint64_t>(std::count(written.begin(), written.end(), 1u));
    }
};

template <class F> Affine<F> sum_of(const Affine<F>* begin, const Affine<F>* end) {
    Xyzz<F> sum = Xyzz<F>::infinity();
    for (; begin != end; begin++) sum.add(*begin);
    std::uint64_t limbs[Affine<F>::LIMBS]; // canonical, to be compared
    sum.to_affine().store(limbs);
    return Affine<F>::load(limbs);
}

// Places that were not written once, and buckets whose sum is another one than that of their entries.
template <class F>
std::uint64_t faults(const std::uint64_t* points, std::uint64_t n_points, const std::uint32_t* entries,
                     const std::uint32_t* offsets, std::uint32_t n_buckets, std::uint32_t n_chunks, std::uint32_t n_rounds,
                     std::uint32_t n_chains) {
    Limbs records(Record<F>::LIMBS * n_points);
    for (std::uint64_t i = 0; i < n_points; i++)
        Record<F>::store(records.data(), i, load_point<F>(points + Affine<F>::LIMBS * i));
    const MsmPlan plan{offsets[n_buckets], 0};
    Words final_offsets(n_buckets + 1);
    const AffineCut cut(&plan, offsets, n_buckets, n_chunks, n_rounds, final_offsets.data());
    for (std::uint32_t b = 0; b < n_buckets; b++) final_offsets[b + 1] = final_offsets[b] + cut.left_of(b);
    Rounds rounds(cut, n_chains);
    Limbs levels[2], last(Affine<F>::LIMBS * std::size_t{final_offsets[n_buckets]});
    std::uint64_t n_faults = 0;
    for (std::uint32_t chunk = 0; chunk < n_chunks; chunk++) {
        NamedPoints<F> source{records.data(), entries, 0};
        for (std::uint32_t k = 0; k < n_rounds; k++) {
            Limbs& next = k + 1 == n_rounds ? last : levels[k % 2];
            const std::uint64_t n_places = AffineCut::place(k + 1, cut.chunk_length, n_buckets + 1) + 1; // msm_accumulate.py
            if (&next != &last) next.assign(Affine<F>::LIMBS * n_places, 1);
            const std::size_t n_next = next.size() / Affine<F>::LIMBS;
            const NamedPoints<F> sums{next.data(), nullptr, &next == &last ? 0 : n_next};
            n_faults += rounds.run(chunk, k, source, sums, n_next);
            source = sums;
        }
    }
    for (std::uint32_t b = 0; b < n_buckets; b++) {
        std::vector<Affine<F>> all, left;
        for (std::uint32_t i = offsets[b]; i < offsets[b + 1]; i++)
            all.push_back(Record<F>::load(records.data(), entries[i]));
        for (std::uint32_t i = final_offsets[b]; i < final_offsets[b + 1]; i++) {
            left.push_back(load_point<F>(last.data() + Affine<F>::LIMBS * std::size_t{i}));
            n_faults += !left.back().x.is_canonical() || !left.back().y.is_canonical();
        }
        const Affine<F> wanted = sum_of(all.data(), all.data() + all.size());
        const Affine<F> found = sum_of(left.data(), left.data() + left.size());
        n_faults += wanted.x != found.x || wanted.y != found.y;
    }
    return n_faults;
}
} // namespace

extern "C" std::uint64_t affine_faults(int group, const std::uint64_t* points, std::uint64_t n_points,
                                       const std::uint32_t* entries, const std::uint32_t* offsets,
                                       std::uint32_t n_buckets, std::uint32_t n_chunks, std::uint32_t rounds,
                                       std::uint32_t n_chains) {
    using Fp = FpOf<Carry32Loose>;
    if (group == 1) return faults<Fp>(points, n_points, entries, offsets, n_buckets, n_chunks, rounds, n_chains);
    return faults<Fp2<Fp>>(points, n_points, entries, offsets, n_buckets, n_chunks, rounds, n_chains);
}
