// Entries in order of their buckets, in two steps. First by tiles, which are TILE neighbouring buckets: each block counts the
// digits that it has for each tile in shared memory, reserves a run of places for them, and writes there. Then a block for
// each tile counts its buckets in shared memory and places the entries. No step needs an atomic operation on global memory
// for each entry: those took three times as long.
#pragma once
#include "msm_digits.cuh"

namespace cuzkops {

inline constexpr std::uint32_t TILE = 2048, SORT_THREADS = 512, TILE_THREADS = 1024;

#ifdef __CUDACC__

// The sum of `value` over the threads of a block before this one; total: over all. scratch: 32 words.
__device__ inline std::uint32_t exclusive_sum(std::uint32_t value, std::uint32_t* scratch, std::uint32_t& total) {
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    std::uint32_t sum = value;
    for (int step = 1; step < 32; step *= 2) {
        const std::uint32_t other = __shfl_up_sync(0xffffffff, sum, step);
        if (lane >= step) sum += other;
    }
    __syncthreads(); // scratch may still be read from the call before
    if (lane == 31) scratch[warp] = sum;
    __syncthreads();
    std::uint32_t before = 0;
    total = 0;
    for (unsigned other = 0; other < blockDim.x / 32; other++) {
        before += other < warp ? scratch[other] : 0;
        total += scratch[other];
    }
    return before + sum - value;
}

// Calls visit(tile, key, image, window, negative, i) for the digits of this block's `each` * SORT_THREADS scalars; tile is
// NO_BUCKET where the digit is 0.
template <class F, class Visit>
__device__ void for_each_of_block(const MsmShape& shape, const std::uint64_t* parts, std::uint32_t each, Visit visit) {
    for (std::uint32_t k = 0; k < each; k++) {
        const std::uint64_t i = (static_cast<std::uint64_t>(blockIdx.x) * each + k) * SORT_THREADS + threadIdx.x;
        for_each_digit<F>(shape, parts, i, [&](std::uint32_t key, int image, std::uint32_t window, bool negative) {
            visit(key == NO_BUCKET ? NO_BUCKET : key / TILE, key, image, window, negative, i);
        });
    }
}

__device__ inline std::uint32_t* cleared(std::uint32_t* words, std::uint32_t n) {
    for (std::uint32_t i = threadIdx.x; i < n; i += blockDim.x) words[i] = 0;
    __syncthreads();
    return words;
}

// shared: n_tiles words. tile_counts: 0 before.
template <class F>
__device__ void count_tiles(const MsmShape& shape, const std::uint64_t* parts, std::uint32_t each, std::uint32_t n_tiles,
                            std::uint32_t* shared, std::uint32_t* tile_counts) {
    std::uint32_t* counts = cleared(shared, n_tiles);
    for_each_of_block<F>(shape, parts, each,
                         [&](std::uint32_t tile, std::uint32_t, int, std::uint32_t, bool, std::uint64_t) { count_one(counts, tile); });
    __syncthreads();
    for (std::uint32_t tile = threadIdx.x; tile < n_tiles; tile += SORT_THREADS)
        if (counts[tile] != 0) atomicAdd(tile_counts + tile, counts[tile]);
}

// One block: counts of tiles become where they begin. Segments get `shortest` entries or as many as it takes to have
// `most_segments` at most.
__device__ inline void scan_tiles(std::uint32_t* tiles, std::uint32_t n_tiles, std::uint32_t shortest,
                                  std::uint32_t most_segments, MsmPlan* plan) {
    __shared__ std::uint32_t scratch[32];
    std::uint32_t base = 0;
    for (std::uint32_t from = 0; from < n_tiles; from += blockDim.x) {
        const std::uint32_t at = from + threadIdx.x;
        std::uint32_t total;
        const std::uint32_t before = exclusive_sum(at < n_tiles ? tiles[at] : 0, scratch, total);
        if (at < n_tiles) tiles[at] = base + before;
        base += total;
    }
    if (threadIdx.x == 0) {
        const std::uint32_t length = base / most_segments + (base % most_segments != 0);
        *plan = {base, length > shortest ? length : shortest};
    }
}

// tiles: where the next entry of each tile goes; afterwards where each tile ends. sorted: an entry in the low half of a
// word, its bucket within the tile in the high one.
template <class F>
__device__ void place_in_tiles(const MsmShape& shape, const std::uint64_t* parts, std::uint32_t each, std::uint32_t n_tiles,
                               std::uint32_t* shared, std::uint32_t* tiles, std::uint64_t* sorted) {
    std::uint32_t* places = cleared(shared, n_tiles);
    for_each_of_block<F>(shape, parts, each,
                         [&](std::uint32_t tile, std::uint32_t, int, std::uint32_t, bool, std::uint64_t) { count_one(places, tile); });
    __syncthreads();
    for (std::uint32_t tile = threadIdx.x; tile < n_tiles; tile += SORT_THREADS)
        if (places[tile] != 0) places[tile] = atomicAdd(tiles + tile, places[tile]);
    __syncthreads();
    for_each_of_block<F>(shape, parts, each, [&](std::uint32_t tile, std::uint32_t key, int image, std::uint32_t window,
                                                 bool negative, std::uint64_t i) {
        const std::uint32_t place = count_one(places, tile);
        if (tile == NO_BUCKET) return;
        const std::uint64_t record = window / shape.modules * shape.n_points + i;
        const std::uint32_t entry = static_cast<std::uint32_t>(record * Parts<F>::IMAGES + image) | (negative ? NEGATIVE : 0);
        sorted[place] = static_cast<std::uint64_t>(key % TILE) << 32 | entry;
    });
}

// A block for each tile, of TILE_THREADS threads. tile_ends: see place_in_tiles. offsets: n_buckets + 1 words.
__device__ inline void sort_tile(const std::uint64_t* sorted, const std::uint32_t* tile_ends, std::uint32_t n_buckets,
                                 std::uint32_t* offsets, std::uint32_t* entries) {
    constexpr std::uint32_t EACH = TILE / TILE_THREADS;
    __shared__ std::uint32_t places[TILE], scratch[32];
    const std::uint32_t begin = blockIdx.x == 0 ? 0 : tile_ends[blockIdx.x - 1], end = tile_ends[blockIdx.x];
    cleared(places, TILE);
    const auto for_each = [&](auto visit) {
        for (std::uint64_t from = begin; from < end; from += TILE_THREADS) {
            const std::uint64_t at = from + threadIdx.x;
            const std::uint64_t word = at < end ? sorted[at] : ~std::uint64_t{0};
            visit(static_cast<std::uint32_t>(word >> 32), static_cast<std::uint32_t>(word));
        }
    };
    for_each([&](std::uint32_t bucket, std::uint32_t) { count_one(places, bucket); });
    __syncthreads();
    std::uint32_t count[EACH], sum = 0, total;
    for (std::uint32_t k = 0; k < EACH; k++) sum += count[k] = places[threadIdx.x * EACH + k];
    std::uint32_t at = begin + exclusive_sum(sum, scratch, total);
    for (std::uint32_t k = 0; k < EACH; k++) {
        const std::uint64_t bucket = static_cast<std::uint64_t>(blockIdx.x) * TILE + threadIdx.x * EACH + k;
        places[threadIdx.x * EACH + k] = at;
        if (bucket < n_buckets) offsets[bucket] = at;
        at += count[k];
    }
    if (blockIdx.x + 1 == gridDim.x && threadIdx.x == 0) offsets[n_buckets] = end;
    __syncthreads();
    for_each([&](std::uint32_t bucket, std::uint32_t entry) {
        const std::uint32_t place = count_one(places, bucket);
        if (bucket != NO_BUCKET) entries[place] = entry;
    });
}

#endif

} // namespace cuzkops
