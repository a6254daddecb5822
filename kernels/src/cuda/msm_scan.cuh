// From the number of entries of each bucket to where they begin, over tiles of TILE buckets: sums of tiles, their
// prefix sums in one block, and the tiles again. All kernels run with SCAN_THREADS threads a block.
#pragma once
#include "msm_shape.cuh"

namespace cuzkops {

inline constexpr std::uint32_t SCAN_THREADS = 256, TILE = 2048, EACH = TILE / SCAN_THREADS;

#ifdef __CUDACC__

// The sum of `value` over the threads before this one; total: over all. scratch: 32 words.
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
    for (unsigned other = 0; other < SCAN_THREADS / 32; other++) {
        before += other < warp ? scratch[other] : 0;
        total += scratch[other];
    }
    return before + sum - value;
}

__device__ inline void sum_tile(const std::uint32_t* counts, std::uint32_t n, std::uint32_t* tile_sums) {
    __shared__ std::uint32_t scratch[32];
    std::uint32_t sum = 0, total;
    for (std::uint32_t i = 0; i < EACH; i++) {
        const std::uint64_t at = static_cast<std::uint64_t>(blockIdx.x) * TILE + i * SCAN_THREADS + threadIdx.x;
        if (at < n) sum += counts[at];
    }
    exclusive_sum(sum, scratch, total);
    if (threadIdx.x == 0) tile_sums[blockIdx.x] = total;
}

// One block. Segments get `shortest` entries or as many as it takes to have `most_segments` at most.
__device__ inline void scan_tiles(std::uint32_t* tile_sums, std::uint32_t n_tiles, std::uint32_t shortest,
                                  std::uint32_t most_segments, MsmPlan* plan) {
    __shared__ std::uint32_t scratch[32];
    std::uint32_t base = 0;
    for (std::uint32_t from = 0; from < n_tiles; from += SCAN_THREADS) {
        const std::uint32_t at = from + threadIdx.x;
        std::uint32_t total;
        const std::uint32_t before = exclusive_sum(at < n_tiles ? tile_sums[at] : 0, scratch, total);
        if (at < n_tiles) tile_sums[at] = base + before;
        base += total;
    }
    if (threadIdx.x == 0) {
        const std::uint32_t length = base / most_segments + (base % most_segments != 0);
        *plan = {base, length > shortest ? length : shortest};
    }
}

// offsets: n + 1 words
__device__ inline void place_tile(const std::uint32_t* counts, std::uint32_t n, const std::uint32_t* tile_sums,
                                  const MsmPlan* plan, std::uint32_t* offsets) {
    __shared__ std::uint32_t scratch[32];
    const std::uint64_t first = static_cast<std::uint64_t>(blockIdx.x) * TILE + threadIdx.x * EACH;
    std::uint32_t count[EACH], sum = 0, total;
    for (std::uint32_t i = 0; i < EACH; i++) {
        count[i] = first + i < n ? counts[first + i] : 0;
        sum += count[i];
    }
    std::uint32_t at = tile_sums[blockIdx.x] + exclusive_sum(sum, scratch, total);
    for (std::uint32_t i = 0; i < EACH; i++) {
        if (first + i < n) offsets[first + i] = at;
        at += count[i];
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) offsets[n] = plan->n_entries;
}

#endif

} // namespace cuzkops
