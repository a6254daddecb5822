// Sums of buckets. The sorted entries are cut into segments of one length, a thread each, whatever the buckets are: any
// distribution of scalars, all equal ones included, keeps all threads busy for the same time. A bucket inside a segment
// is done; one that lies in several segments comes in pieces, which are joined afterwards, 16 at a time.
#pragma once
#include "msm_together.cuh"

namespace cuzkops {

template <class F> struct Accumulation {
    const MsmPlan* plan;
    const std::uint32_t* offsets; // n_buckets + 1: where the entries of each bucket begin
    std::uint32_t n_buckets;
    std::uint64_t* buckets;     // sums; buckets without entries are not written
    std::uint64_t* heads;       // of each segment, the end of a bucket that began before
    std::uint64_t* tails;       // of each segment, the piece of the bucket that goes on behind it
    std::uint32_t* tail_bucket; // its number, or NO_BUCKET

    // load(entry): the point of a place in the sorted entries.
    template <class Load> CUZKOPS_FN void add_segment(std::uint32_t segment, Load load) const {
        const std::uint64_t begin = static_cast<std::uint64_t>(segment) * plan->segment_length;
        if (begin >= plan->n_entries) {
            tail_bucket[segment] = NO_BUCKET;
            return;
        }
        const std::uint64_t after = begin + plan->segment_length;
        const std::uint32_t end = after < plan->n_entries ? static_cast<std::uint32_t>(after) : plan->n_entries;
        std::uint32_t entry = static_cast<std::uint32_t>(begin);
        std::uint32_t bucket = bucket_of(offsets, n_buckets, entry, 0);
        std::uint32_t bucket_end = offsets[bucket + 1];
        bool began_before = offsets[bucket] < entry;
        Xyzz<F> sum = Xyzz<F>::infinity();
        for (; entry < end; entry++) {
            if (entry == bucket_end) {
                store_sum(began_before ? heads : buckets, began_before ? segment : bucket, sum);
                began_before = false;
                sum = Xyzz<F>::infinity();
                bucket++;
                if (offsets[bucket + 1] == entry) bucket = bucket_of(offsets, n_buckets, entry, bucket);
                bucket_end = offsets[bucket + 1];
            }
            const Affine<F> p = load(entry);
            if constexpr (Record<F>::ADDED_COMPACTLY) sum.add_compactly(p);
            else sum.add(p);
        }
        const bool goes_on = end < bucket_end;
        tail_bucket[segment] = goes_on ? bucket : NO_BUCKET;
        if (goes_on) store_sum(tails, segment, sum);
        else store_sum(began_before ? heads : buckets, began_before ? segment : bucket, sum);
    }

#ifdef __CUDACC__
    // For buckets that are long on the whole: a group of lanes for each, for all with few pieces.
    __device__ void join_bucket(GroupScratch<F>* scratch, std::uint32_t bucket) const {
        const bool is_used = bucket < n_buckets && offsets[bucket] != offsets[bucket + 1];
        const std::uint32_t first = is_used ? offsets[bucket] / plan->segment_length : 0;
        const std::uint32_t last = is_used ? (offsets[bucket + 1] - 1) / plan->segment_length : 0;
        const bool is_joined = first != last && last - first <= 16;
        if (!__any_sync(ALL_LANES, is_joined)) return;
        auto sum = Together<F>::of(scratch);
        if (is_joined) sum.load(heads, last);
        for (std::uint32_t piece = first; __any_sync(ALL_LANES, is_joined && piece < last); piece++)
            sum.add(tails, piece, is_joined && piece < last);
        if (!is_joined) return;
        sum.store(buckets, bucket);
        tail_bucket[first] = NO_BUCKET; // join_pieces leaves it alone
    }
#endif

    // The segments first to last have pieces of a bucket. In round k, with stride 16^k, every (16 stride)th of them takes
    // the next 15 that are left; the round that reaches the last one takes its head too, and writes the bucket.
    CUZKOPS_FN void join_pieces(std::uint32_t segment, std::uint32_t stride) const {
        const std::uint32_t bucket = tail_bucket[segment];
        if (bucket == NO_BUCKET) return;
        const std::uint32_t first = offsets[bucket] / plan->segment_length;
        const std::uint32_t last = (offsets[bucket + 1] - 1) / plan->segment_length;
        const std::uint64_t reach = static_cast<std::uint64_t>(16) * stride;
        if ((segment - first) % reach != 0) return;
        const bool complete = segment == first && last - first <= reach;
        Xyzz<F> sum = load_sum<F>(tails, segment);
        for (std::uint64_t piece = segment + static_cast<std::uint64_t>(stride); piece < segment + reach; piece += stride) {
            if (piece >= last) break;
            sum = Xyzz<F>::sum_apart(sum, load_sum<F>(tails, piece));
        }
        if (!complete) {
            store_sum(tails, segment, sum);
            return;
        }
        store_sum(buckets, bucket, Xyzz<F>::sum_apart(sum, load_sum<F>(heads, last)));
        tail_bucket[segment] = NO_BUCKET; // the rounds to come leave it alone
    }
};

} // namespace cuzkops
