// Entries in order of their buckets, in two steps. First by tiles, which are 2^tile_bits neighbouring buckets: each block
// orders what it has in shared memory, reserves a run of places for each tile, and writes whole runs. Then a block for each
// tile counts its buckets in shared memory and places the entries. Writing each entry to its place at once, with a counter
// in memory for each bucket, took twice as long: the cache does not hold all the places that are being written.
#pragma once
#include "msm_digits.cuh"

namespace cuzkops {

inline constexpr std::uint32_t SORT_THREADS = 1024, MOST_TILE_BITS = 11, SORTED_AT_ONCE = 16384;

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

// Scalars of a vector in two lists that grow towards each other: the wide ones from the front, the narrow ones from the
// back. Zeros are in neither, and windows above the first read the wide ones alone: witnesses are mostly zeros and ones.
struct Lists {
    const std::uint64_t* parts;
    const std::uint32_t* indices; // which scalar it is
    const std::uint32_t* counts;  // of wide and of narrow ones, for each vector
};

// A thread for each scalar, blockIdx.y is the vector. counts: 0 before.
template <class F>
__device__ void split_scalars(std::uint64_t n_points, std::uint32_t window_bits, const std::uint64_t* scalars,
                              std::uint64_t* parts, std::uint32_t* indices, std::uint32_t* counts) {
    __shared__ std::uint32_t scratch[32], first[2];
    const std::uint64_t i = static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const std::uint64_t vector = blockIdx.y * n_points;
    Parts<F> mine = {};
    if (i < n_points) {
        std::uint64_t scalar[4];
        load_limbs<4>(scalar, scalars + 4 * (vector + i));
        mine = Parts<F>::of(scalar);
    }
    const Width width = width_of<F>(mine, window_bits);
    std::uint32_t total;
    const std::uint32_t before = exclusive_sum(width == WIDE ? 1 : width == NARROW ? 1u << 16 : 0, scratch, total);
    if (threadIdx.x == 0) {
        first[0] = atomicAdd(counts + 2 * blockIdx.y, total & 0xffff);
        first[1] = atomicAdd(counts + 2 * blockIdx.y + 1, total >> 16);
    }
    __syncthreads();
    if (width == ZERO) return;
    const std::uint64_t place = width == WIDE ? first[0] + (before & 0xffff) : n_points - 1 - first[1] - (before >> 16);
    for (int j = 0; j < 4; j++) parts[4 * (vector + place) + j] = mine.word[j];
    indices[vector + place] = static_cast<std::uint32_t>(i);
}

// What a block sorts: SORTED_AT_ONCE digits of one window of one vector of scalars. Vectors stand one after the other, and
// so do their buckets.
template <class F> struct SortBlock {
    static constexpr std::uint32_t EACH = SORTED_AT_ONCE / SORT_THREADS / Parts<F>::IMAGES; // scalars of a thread
    MsmShape shape;
    const std::uint64_t* parts;
    const std::uint32_t* indices;
    std::uint32_t n_wide, n_narrow;
    std::uint32_t tile_bits, window, first_of_vector; // its first bucket
    std::uint32_t first_tile, n_tiles;                // tiles with buckets of the window's module

    __device__ SortBlock(const MsmShape& all, const Lists& lists, std::uint32_t bits)
        : shape(all), parts(lists.parts + 4 * all.n_points * blockIdx.z), indices(lists.indices + all.n_points * blockIdx.z),
          n_wide(lists.counts[2 * blockIdx.z]), n_narrow(lists.counts[2 * blockIdx.z + 1]), tile_bits(bits),
          window(blockIdx.y), first_of_vector(blockIdx.z * all.n_buckets()) {
        const std::uint32_t first_bucket = first_of_vector + window % shape.modules * shape.buckets_per_module();
        first_tile = first_bucket >> tile_bits;
        n_tiles = ((first_bucket + shape.buckets_per_module() - 1) >> tile_bits) - first_tile + 1;
    }
    __device__ bool is_there(std::uint64_t i) const {
        return i < n_wide || (window == 0 && i < shape.n_points && i >= shape.n_points - n_narrow);
    }
    // Whether none of the block's places has a scalar with digits of the window.
    __device__ bool is_empty() const {
        const std::uint64_t from = static_cast<std::uint64_t>(blockIdx.x) * EACH * SORT_THREADS;
        return from >= n_wide && (window > 0 || from + EACH * SORT_THREADS <= shape.n_points - n_narrow);
    }
    // Calls visit(tile - first_tile, bucket, image, negative, i) for each digit; both are NO_BUCKET where the digit is 0.
    template <class Visit> __device__ void for_each(Visit visit) const {
        for (std::uint32_t k = 0; k < EACH; k++) {
            const std::uint64_t i = (static_cast<std::uint64_t>(blockIdx.x) * EACH + k) * SORT_THREADS + threadIdx.x;
            for_each_digit<F>(shape, window, parts, i, is_there(i), [&](std::uint32_t key, int image, bool negative) {
                const std::uint32_t bucket = key == NO_BUCKET ? key : first_of_vector + key;
                visit(key == NO_BUCKET ? key : (bucket >> tile_bits) - first_tile, bucket, image, negative, i);
            });
        }
    }
    // How many digits of the block there are for each tile. counts: n_tiles words of shared memory.
    __device__ void count(std::uint32_t* counts) const {
        for (std::uint32_t tile = threadIdx.x; tile < n_tiles; tile += SORT_THREADS) counts[tile] = 0;
        __syncthreads();
        for_each([&](std::uint32_t tile, std::uint32_t, int, bool, std::uint64_t) { count_one(counts, tile); });
        __syncthreads();
    }
};

// shared: a word for each tile of a module. tile_counts: 0 before.
template <class F> __device__ void count_tiles(const SortBlock<F>& block, std::uint32_t* shared, std::uint32_t* tile_counts) {
    if (block.is_empty()) return;
    block.count(shared);
    for (std::uint32_t tile = threadIdx.x; tile < block.n_tiles; tile += SORT_THREADS)
        if (shared[tile] != 0) atomicAdd(tile_counts + block.first_tile + tile, shared[tile]);
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
// word, its bucket in the high one. ordered: SORTED_AT_ONCE words of shared memory; places and shifts: one for each tile.
template <class F>
__device__ void place_in_tiles(const SortBlock<F>& block, std::uint64_t* ordered, std::uint32_t* places,
                               std::uint32_t* shifts, std::uint32_t* tiles, std::uint64_t* sorted) {
    __shared__ std::uint32_t scratch[32];
    if (block.is_empty()) return;
    block.count(places);
    std::uint32_t n_here = 0;
    for (std::uint32_t from = 0; from < block.n_tiles; from += SORT_THREADS) {
        const std::uint32_t tile = from + threadIdx.x, count = tile < block.n_tiles ? places[tile] : 0;
        std::uint32_t total;
        const std::uint32_t at = n_here + exclusive_sum(count, scratch, total);
        if (tile < block.n_tiles) {
            places[tile] = at;
            if (count != 0) shifts[tile] = atomicAdd(tiles + block.first_tile + tile, count) - at;
        }
        n_here += total;
    }
    __syncthreads();
    const std::uint64_t first_record = block.window / block.shape.modules * block.shape.n_points;
    block.for_each([&](std::uint32_t tile, std::uint32_t key, int image, bool negative, std::uint64_t i) {
        const std::uint32_t place = count_one(places, tile);
        if (tile == NO_BUCKET) return;
        const std::uint64_t record = first_record + block.indices[i];
        const std::uint32_t entry = static_cast<std::uint32_t>(record * Parts<F>::IMAGES + image) | (negative ? NEGATIVE : 0);
        ordered[place] = static_cast<std::uint64_t>(key) << 32 | entry;
    });
    __syncthreads();
    for (std::uint32_t at = threadIdx.x; at < n_here; at += SORT_THREADS) {
        const std::uint32_t tile = (static_cast<std::uint32_t>(ordered[at] >> 32) >> block.tile_bits) - block.first_tile;
        sorted[at + shifts[tile]] = ordered[at];
    }
}

// A block for each tile, of SORT_THREADS threads. tile_ends: see place_in_tiles. offsets: n_buckets + 1 words.
__device__ inline void sort_tile(const std::uint64_t* sorted, const std::uint32_t* tile_ends, std::uint32_t tile_bits,
                                 std::uint32_t n_buckets, std::uint32_t* offsets, std::uint32_t* entries) {
    constexpr std::uint32_t EACH = (1u << MOST_TILE_BITS) / SORT_THREADS, AT_ONCE = 8;
    __shared__ std::uint32_t places[1u << MOST_TILE_BITS], scratch[32];
    const std::uint32_t begin = blockIdx.x == 0 ? 0 : tile_ends[blockIdx.x - 1], end = tile_ends[blockIdx.x];
    const std::uint32_t tile_size = 1u << tile_bits;
    for (std::uint32_t k = 0; k < EACH; k++) places[threadIdx.x * EACH + k] = 0;
    __syncthreads();
    const auto for_each = [&](auto visit) {
        for (std::uint64_t from = begin; from < end; from += AT_ONCE * SORT_THREADS) {
            std::uint64_t word[AT_ONCE]; // read together: a block waits less often
            CUZKOPS_UNROLL for (std::uint32_t k = 0; k < AT_ONCE; k++) {
                const std::uint64_t at = from + k * SORT_THREADS + threadIdx.x;
                word[k] = at < end ? sorted[at] : ~std::uint64_t{0};
            }
            CUZKOPS_UNROLL for (std::uint32_t k = 0; k < AT_ONCE; k++) {
                const std::uint32_t key = static_cast<std::uint32_t>(word[k] >> 32);
                visit(key == NO_BUCKET ? NO_BUCKET : key & (tile_size - 1), static_cast<std::uint32_t>(word[k]));
            }
        }
    };
    for_each([&](std::uint32_t bucket, std::uint32_t) { count_one(places, bucket); });
    __syncthreads();
    std::uint32_t count[EACH], sum = 0, total;
    for (std::uint32_t k = 0; k < EACH; k++) sum += count[k] = places[threadIdx.x * EACH + k];
    std::uint32_t at = begin + exclusive_sum(sum, scratch, total);
    for (std::uint32_t k = 0; k < EACH; k++) {
        const std::uint32_t within = threadIdx.x * EACH + k;
        const std::uint64_t bucket = (static_cast<std::uint64_t>(blockIdx.x) << tile_bits) + within;
        places[within] = at;
        if (within < tile_size && bucket < n_buckets) offsets[bucket] = at;
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
