// Which points a round of affine additions adds, and where the sums go. A round makes of the m points of a bucket
// ceil(m / 2): neighbours are added, the last of an odd number is copied. Nothing here depends on how long a bucket is:
// threads take equal ranges of the sorted entries, whatever the buckets are.
//
// Entries are taken in chunks of one length, so that what lies between two rounds has a bounded size: a bucket that lies in
// several chunks comes in parts. "Level k" is what k rounds have left: element j of a part stands for its entries from
// j 2^k on. Between rounds, places need no sums over buckets before: part number v, which begins at entry s, begins at
// (s + (2^k - 1) v) / 2^k, which leaves room for all its ceil(m / 2^k) elements. After the last round the places are exact.
#pragma once
#include "msm_sort.cuh"

namespace cuzkops {

struct AffineCut {
    const std::uint32_t* offsets; // n_buckets + 1: where the entries of each bucket begin
    std::uint32_t n_buckets, rounds;
    const std::uint32_t* final_offsets; // the same for what is left after all rounds
    std::uint32_t n_entries, chunk_length;

    CUZKOPS_FN AffineCut(const MsmPlan* plan, const std::uint32_t* places, std::uint32_t buckets, std::uint32_t n_chunks,
                         std::uint32_t n_rounds, const std::uint32_t* final_places)
        : offsets(places), n_buckets(buckets), rounds(n_rounds), final_offsets(final_places), n_entries(plan->n_entries) {
        const std::uint32_t length = n_entries / n_chunks + (n_entries % n_chunks != 0);
        chunk_length = static_cast<std::uint32_t>(halved(length > 0 ? length : 1, rounds) << rounds);
    }
    CUZKOPS_FN std::uint64_t chunk_begin(std::uint32_t chunk) const { return std::uint64_t{chunk} * chunk_length; }
    CUZKOPS_FN std::uint64_t chunk_end(std::uint32_t chunk) const {
        const std::uint64_t end = chunk_begin(chunk + 1);
        return end < n_entries ? end : n_entries;
    }
    CUZKOPS_FN std::uint32_t chunk_of(std::uint32_t entry) const { return entry / chunk_length; }
    CUZKOPS_FN std::uint32_t bucket_of(std::uint64_t entry, std::uint32_t from, std::uint32_t until) const {
        return cuzkops::bucket_of(offsets, until, static_cast<std::uint32_t>(entry), from);
    }
    CUZKOPS_FN static std::uint64_t halved(std::uint64_t count, std::uint32_t rounds) {
        return (count + (std::uint64_t{1} << rounds) - 1) >> rounds;
    }
    CUZKOPS_FN static std::uint64_t place(std::uint32_t level, std::uint64_t begin, std::uint64_t number) {
        return (begin + ((std::uint64_t{1} << level) - 1) * number) >> level;
    }
    // What is left of the parts of a bucket that lie before a chunk.
    CUZKOPS_FN std::uint64_t left_before(std::uint32_t bucket, std::uint32_t chunk) const {
        const std::uint32_t begin = offsets[bucket], first = chunk_of(begin);
        if (first >= chunk) return 0;
        return halved(chunk_begin(first + 1) - begin, rounds) + (chunk_begin(chunk - first - 1) >> rounds);
    }
    CUZKOPS_FN std::uint32_t left_of(std::uint32_t bucket) const {
        const std::uint32_t begin = offsets[bucket], end = offsets[bucket + 1];
        if (begin == end) return 0;
        const std::uint32_t last = chunk_of(end - 1);
        const std::uint64_t from = begin > chunk_begin(last) ? begin : chunk_begin(last);
        return static_cast<std::uint32_t>(left_before(bucket, last) + halved(end - from, rounds));
    }

    // How many pairs the function below finds.
    CUZKOPS_FN std::uint32_t count_pairs(std::uint32_t chunk, std::uint32_t round, std::uint64_t begin, std::uint64_t end,
                                         std::uint32_t bucket) const {
        const std::uint64_t from = chunk_begin(chunk), until = chunk_end(chunk), half = std::uint64_t{1} << round;
        std::uint64_t count = 0;
        for (;;) {
            const std::uint64_t bucket_begin = offsets[bucket], bucket_end = offsets[bucket + 1];
            const std::uint64_t s = bucket_begin > from ? bucket_begin : from, e = bucket_end < until ? bucket_end : until;
            const std::uint64_t first = s < begin ? halved(begin - s, round + 1) : 0;
            const std::uint64_t all = halved((e < end ? e : end) - s, round + 1);
            const std::uint64_t whole = e - s > half ? halved(e - s - half, round + 1) : 0;
            const std::uint64_t after = all < whole ? all : whole;
            count += after > first ? after - first : 0;
            if (e >= end) return static_cast<std::uint32_t>(count);
            bucket++;
            if (offsets[bucket + 1] == bucket_end) bucket = bucket_of(bucket_end, bucket, n_buckets);
        }
    }

    // Calls visit(at, to, is_pair) for each element of the next level whose first entry is in [begin, end) of a chunk: it is
    // element `at` of this level, and the one behind it where is_pair says so. Level 0 counts from the first entry of all, the
    // others from that of the chunk, and the last one as final_offsets does. first_bucket: of the chunk; bucket: of `begin`.
    template <class Visit>
    CUZKOPS_FN void for_each_pair(std::uint32_t chunk, std::uint32_t round, std::uint64_t begin, std::uint64_t end,
                                  std::uint32_t first_bucket, std::uint32_t bucket, Visit visit) const {
        const std::uint64_t from = chunk_begin(chunk), until = chunk_end(chunk), half = std::uint64_t{1} << round;
        const std::uint64_t first_number = first_bucket + std::uint64_t{chunk};
        const std::uint64_t base = place(round, from, first_number), next_base = place(round + 1, from, first_number);
        for (;;) {
            const std::uint64_t bucket_begin = offsets[bucket], bucket_end = offsets[bucket + 1];
            const std::uint64_t s = bucket_begin > from ? bucket_begin : from, e = bucket_end < until ? bucket_end : until;
            const std::uint64_t number = bucket + std::uint64_t{chunk}, stop = e < end ? e : end;
            const std::uint64_t at = round == 0 ? s : place(round, s, number) - base;
            const std::uint64_t to = round + 1 == rounds ? final_offsets[bucket] + left_before(bucket, chunk)
                                                         : place(round + 1, s, number) - next_base;
            std::uint64_t j = s < begin ? halved(begin - s, round + 1) : 0;
            for (std::uint64_t entry = s + 2 * half * j; entry < stop; entry += 2 * half, j++)
                visit(static_cast<std::uint32_t>(at + 2 * j), static_cast<std::uint32_t>(to + j), entry + half < e);
            if (e >= end) return;
            bucket++;
            if (offsets[bucket + 1] == bucket_end) bucket = bucket_of(bucket_end, bucket, n_buckets);
        }
    }
};

// The pairs of a round: what names the points of each, and the place of their sum.
struct PairList {
    std::uint32_t* words; // all first points, all second points, all places
    std::uint32_t capacity;
    std::uint32_t* count;

    CUZKOPS_FN std::uint32_t first(std::uint32_t i) const { return words[i]; }
    CUZKOPS_FN std::uint32_t second(std::uint32_t i) const { return words[capacity + i]; }
    CUZKOPS_FN std::uint32_t place(std::uint32_t i) const { return words[2ull * capacity + i]; }
    CUZKOPS_FN void set(std::uint32_t i, std::uint32_t first, std::uint32_t second, std::uint32_t place) const {
        words[i] = first;
        words[capacity + i] = second;
        words[2ull * capacity + i] = place;
    }
};

// Entries of a thread in round k: PLANNED << (k + 1), which is that many elements of the next level, and a few more.
inline constexpr std::uint32_t PLAN_THREADS = 128, PLANNED = 8, SCAN_EACH = 8;

#ifdef __CUDACC__

// AffineCut::bucket_of by a warp: 32 places are looked at together, because a block waits for it.
__device__ inline std::uint32_t find_bucket(const AffineCut& cut, std::uint64_t entry) {
    const std::uint32_t lane = threadIdx.x % 32;
    std::uint32_t low = 0, high = cut.n_buckets; // offsets[low] <= entry < offsets[high]
    while (high - low > 1) {
        const std::uint32_t step = (high - low + 31) / 32, middle = low + lane * step;
        const bool at_or_after = lane == 0 || (middle < high && cut.offsets[middle] <= entry);
        low += (31 - __clz(__ballot_sync(0xffffffff, at_or_after))) * step;
        high = low + step < high ? low + step : high;
    }
    return low;
}

// copy(at, to) for what has no neighbour. count: 0 before the round.
template <class Name, class Copy>
__device__ void plan_pairs(const AffineCut& cut, std::uint32_t chunk, std::uint32_t round, const PairList& pairs, Name name,
                           Copy copy) {
    constexpr std::uint32_t ROOM = PLAN_THREADS * PLANNED * 2;
    __shared__ std::uint32_t staged[3][ROOM], scratch[32], base, bounds[3], n_alone; // pairs from below, others from above
    const std::uint64_t length = static_cast<std::uint64_t>(PLANNED) << (round + 1), until = cut.chunk_end(chunk);
    const std::uint64_t block_begin = cut.chunk_begin(chunk) + std::uint64_t{blockIdx.x} * PLAN_THREADS * length;
    if (block_begin >= until) return;
    const std::uint64_t block_end = block_begin + PLAN_THREADS * length, begin = block_begin + threadIdx.x * length;
    const std::uint64_t end = begin + length < until ? begin + length : until;
    if (const std::uint32_t warp = threadIdx.x / 32; warp < 3) { // once for all threads, and theirs between the last two
        const std::uint64_t last = (block_end < until ? block_end : until) - 1;
        const std::uint32_t found = find_bucket(cut, warp == 0 ? cut.chunk_begin(chunk) : warp == 1 ? block_begin : last);
        if (threadIdx.x % 32 == 0) bounds[warp] = found;
    }
    __syncthreads();
    const std::uint32_t first_bucket = bounds[0], bucket = begin < end ? cut.bucket_of(begin, bounds[1], bounds[2] + 1) : 0;
    std::uint32_t n_all;
    std::uint32_t rank = exclusive_sum(begin < end ? cut.count_pairs(chunk, round, begin, end, bucket) : 0, scratch, n_all);
    if (threadIdx.x == 0) base = atomicAdd(pairs.count, n_all);
    if (threadIdx.x == 0) n_alone = 0;
    __syncthreads();
    if (begin < end)
        cut.for_each_pair(chunk, round, begin, end, first_bucket, bucket, [&](auto at, auto to, bool is_pair) {
            if (!is_pair) {
                const std::uint32_t below = atomicAdd(&n_alone, 1);
                if (n_all + below >= ROOM) return copy(at, to);
                staged[0][ROOM - 1 - below] = at;
                staged[2][ROOM - 1 - below] = to;
                return;
            }
            staged[0][rank] = name(at);
            staged[1][rank] = name(at + 1);
            staged[2][rank++] = to;
        });
    __syncthreads();
    for (std::uint32_t i = threadIdx.x; i < n_all; i += PLAN_THREADS)
        pairs.set(base + i, staged[0][i], staged[1][i], staged[2][i]);
    for (std::uint32_t i = threadIdx.x; i < n_alone && n_all + i < ROOM; i += PLAN_THREADS)
        copy(staged[0][ROOM - 1 - i], staged[2][ROOM - 1 - i]);
}

// What is left in the buckets of a block of 1024 threads.
__device__ inline std::uint32_t left_of_thread(const AffineCut& cut, std::uint32_t* left) {
    std::uint32_t sum = 0;
    for (std::uint32_t k = 0; k < SCAN_EACH; k++) {
        const std::uint64_t bucket = (static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * SCAN_EACH + k;
        left[k] = bucket < cut.n_buckets ? cut.left_of(static_cast<std::uint32_t>(bucket)) : 0;
        sum += left[k];
    }
    return sum;
}
// sums: one for each block. scan_tiles (msm_sort.cuh) makes of them where each block begins.
__device__ inline void count_final(const AffineCut& cut, std::uint32_t* sums) {
    __shared__ std::uint32_t scratch[32];
    std::uint32_t left[SCAN_EACH], total;
    exclusive_sum(left_of_thread(cut, left), scratch, total);
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
}
__device__ inline void place_final(const AffineCut& cut, const std::uint32_t* sums, std::uint32_t* final_offsets) {
    __shared__ std::uint32_t scratch[32];
    std::uint32_t left[SCAN_EACH], total;
    std::uint32_t at = sums[blockIdx.x] + exclusive_sum(left_of_thread(cut, left), scratch, total);
    for (std::uint32_t k = 0; k < SCAN_EACH; k++) {
        const std::uint64_t bucket = (static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * SCAN_EACH + k;
        if (bucket <= cut.n_buckets) final_offsets[bucket] = at;
        at += left[k];
    }
}

#endif

} // namespace cuzkops
