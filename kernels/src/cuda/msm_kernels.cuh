// The kernels of a multi-scalar multiplication in the group whose coordinates are MsmField, but for those in
// msm_g1_accumulate.cu and msm_g2_accumulate.cu. What an argument means is
// said in the header of its stage; sizes and addresses come from kernels/cuda/msm.py.
#pragma once
#include "msm_accumulate.cuh"
#include "msm_bases.cuh"
#include "msm_chain.cuh"
#include "msm_reduce.cuh"
#include "msm_sort.cuh"

#define CUZKOPS_KERNEL(threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks)

using namespace cuzkops;

namespace {
using F = MsmField;
__device__ std::uint64_t thread_number() { return static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
} // namespace

CUZKOPS_KERNEL(256, 2)
cuzkops_msm_split(std::uint64_t n_points, std::uint32_t window_bits, const std::uint64_t* scalars, std::uint64_t* parts,
                  std::uint32_t* indices, std::uint32_t* counts) {
    split_scalars<F>(n_points, window_bits, scalars, parts, indices, counts);
}

// count: 0 before; of the scalars that digits of window_bits do not hold.
CUZKOPS_KERNEL(256, 2)
cuzkops_msm_count_wide(std::uint64_t n_points, std::uint32_t window_bits, const std::uint64_t* scalars,
                       std::uint32_t* count) {
    const std::uint64_t i = thread_number();
    std::uint64_t scalar[4] = {};
    if (i < n_points) load_limbs<4>(scalar, scalars + 4 * i);
    const bool is_wide = width_of<F>(Parts<F>::of(scalar), window_bits) == WIDE;
    count_one(count, is_wide ? 0 : NO_BUCKET);
}

CUZKOPS_KERNEL(SORT_THREADS, 1)
cuzkops_msm_count_tiles(std::uint64_t n_points, std::uint32_t window_bits, std::uint32_t windows, std::uint32_t modules,
                        const std::uint64_t* parts, const std::uint32_t* indices, const std::uint32_t* counts,
                        std::uint32_t tile_bits, std::uint32_t* tile_counts) {
    extern __shared__ std::uint64_t words[];
    const SortBlock<F> block({n_points, window_bits, windows, modules}, {parts, indices, counts}, tile_bits);
    count_tiles<F>(block, reinterpret_cast<std::uint32_t*>(words), tile_counts);
}

CUZKOPS_KERNEL(SORT_THREADS, 1)
cuzkops_msm_scan_tiles(std::uint32_t* tiles, std::uint32_t n_tiles, std::uint32_t shortest, std::uint32_t most_segments,
                       MsmPlan* plan) {
    scan_tiles(tiles, n_tiles, shortest, most_segments, plan);
}

CUZKOPS_KERNEL(SORT_THREADS, 1)
cuzkops_msm_place_in_tiles(std::uint64_t n_points, std::uint32_t window_bits, std::uint32_t windows, std::uint32_t modules,
                           const std::uint64_t* parts, const std::uint32_t* indices, const std::uint32_t* counts,
                           std::uint32_t tile_bits, std::uint32_t* tiles, std::uint64_t* sorted) {
    extern __shared__ std::uint64_t words[];
    const SortBlock<F> block({n_points, window_bits, windows, modules}, {parts, indices, counts}, tile_bits);
    auto* places = reinterpret_cast<std::uint32_t*>(words + SORTED_AT_ONCE);
    place_in_tiles<F>(block, words, places, places + block.n_tiles, tiles, sorted);
}

CUZKOPS_KERNEL(SORT_THREADS, 1)
cuzkops_msm_sort_tiles(const std::uint64_t* sorted, const std::uint32_t* tile_ends, std::uint32_t tile_bits,
                       std::uint32_t n_buckets, std::uint32_t* offsets, std::uint32_t* entries) {
    sort_tile(sorted, tile_ends, tile_bits, n_buckets, offsets, entries);
}

// A group of lanes for each bucket.
CUZKOPS_KERNEL(MSM_THREADS, MSM_BLOCKS)
cuzkops_msm_join_buckets(const MsmPlan* plan, const std::uint32_t* offsets, std::uint32_t n_buckets, std::uint64_t* buckets,
                         std::uint64_t* heads, std::uint64_t* tails, std::uint32_t* tail_bucket) {
    const Accumulation<F> work{plan, offsets, n_buckets, buckets, heads, tails, tail_bucket};
    __shared__ GroupScratch<F> scratch[MSM_THREADS / GROUP_LANES];
    work.join_bucket(scratch, static_cast<std::uint32_t>(thread_number() / GROUP_LANES));
}

CUZKOPS_KERNEL(MSM_THREADS, MSM_BLOCKS)
cuzkops_msm_join(const MsmPlan* plan, const std::uint32_t* offsets, std::uint64_t* buckets, std::uint64_t* heads,
                 std::uint64_t* tails, std::uint32_t* tail_bucket, std::uint32_t n_segments, std::uint32_t stride) {
    const Accumulation<F> work{plan, offsets, 0, buckets, heads, tails, tail_bucket};
    if (thread_number() < n_segments) work.join_pieces(static_cast<std::uint32_t>(thread_number()), stride);
}

CUZKOPS_KERNEL(MSM_THREADS, MSM_BLOCKS)
cuzkops_msm_sum_lines_together(std::uint32_t window_bits, std::uint32_t modules, std::uint32_t row_parts,
                               std::uint32_t column_parts, const std::uint64_t* buckets, const std::uint32_t* offsets,
                               std::uint64_t* sums) {
    __shared__ GroupScratch<F> scratch[MSM_THREADS / GROUP_LANES];
    const Lines lines{window_bits, modules, row_parts, column_parts};
    sum_line_together<F>(scratch, lines, buckets, offsets, sums, thread_number() / GROUP_LANES);
}

CUZKOPS_KERNEL(MSM_THREADS, MSM_BLOCKS)
cuzkops_msm_sum_neighbours(const std::uint64_t* sums, std::uint64_t* out, std::uint32_t count, std::uint64_t n_out) {
    __shared__ GroupScratch<F> scratch[MSM_THREADS / GROUP_LANES];
    sum_neighbours<F>(scratch, sums, out, count, n_out, thread_number() / GROUP_LANES);
}

CUZKOPS_KERNEL(MSM_THREADS, MSM_BLOCKS)
cuzkops_msm_add_sums(std::uint64_t* to, const std::uint64_t* sums, std::uint64_t n) {
    const std::uint64_t i = thread_number();
    if (i < n) store_sum(to, i, Xyzz<F>::sum_apart(load_sum<F>(to, i), load_sum<F>(sums, i)));
}

CUZKOPS_KERNEL(MSM_SLOT_THREADS, 1)
cuzkops_msm_sum_slots(std::uint32_t window_bits, std::uint32_t modules, std::uint32_t row_parts, std::uint32_t column_parts,
                      const std::uint64_t* sums, std::uint64_t* slots) {
    sum_slot<F, MSM_SLOT_THREADS>({window_bits, modules, row_parts, column_parts}, sums, slots);
}

CUZKOPS_KERNEL(COMBINE_THREADS, 1)
cuzkops_msm_combine_slots(std::uint64_t* slots, std::uint32_t window_bits) { combine_slots<F>(slots, window_bits); }

CUZKOPS_KERNEL(MSM_FINISH_THREADS, 1)
cuzkops_msm_finish(std::uint64_t* slots, std::uint32_t modules, std::uint32_t window_bits, std::uint64_t* results) {
    finish_modules<F>(slots, modules, window_bits, results);
}

CUZKOPS_KERNEL(128, 1)
cuzkops_msm_records(const std::uint64_t* points, std::uint64_t n_points, std::uint32_t n_tables, std::uint32_t spacing,
                    std::uint64_t* records) {
    make_records<F>(points, n_points, n_tables, spacing, records, thread_number());
}

// first: n_points before the call.
CUZKOPS_KERNEL(128, 1)
cuzkops_msm_first_invalid(const std::uint64_t* points, std::uint64_t n_points, unsigned long long* first) {
    const std::uint64_t i = thread_number();
    if (i < n_points && !load_point<F>(points + Affine<F>::LIMBS * i).is_valid()) atomicMin(first, i);
}
