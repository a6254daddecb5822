// Sums of buckets. The sorted entries are cut into segments of one length, a thread each, whatever the buckets are: any
// distribution of scalars, all equal ones included, keeps all threads busy for the same time. A bucket inside a segment
// is done; one that lies in several segments comes in pieces, which are joined afterwards, 16 at a time.
#pragma once
#include "msm_shape.cuh"

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

    // For buckets that are long on the whole: a thread for each, for all with few pieces. Done that way, the threads of a
    // warp have about the same to do.
    CUZKOPS_FN void join_bucket(std::uint32_t bucket) const {
        if (offsets[bucket] == offsets[bucket + 1]) return;
        const std::uint32_t first = offsets[bucket] / plan->segment_length;
        const std::uint32_t last = (offsets[bucket + 1] - 1) / plan->segment_length;
        if (first == last || last - first > 16) return;
        Xyzz<F> sum = load_sum<F>(heads, last);
        for (std::uint32_t piece = first; piece < last; piece++) sum = Xyzz<F>::sum_apart(sum, load_sum<F>(tails, piece));
        store_sum(buckets, bucket, sum);
        tail_bucket[first] = NO_BUCKET; // join_pieces leaves it alone
    }

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
