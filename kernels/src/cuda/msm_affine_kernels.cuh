// The kernels of msm_affine_plan.cuh and msm_affine.cuh in the group whose coordinates are MsmField.
#pragma once
#include "msm_affine.cuh"

#define CUZKOPS_KERNEL(threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks)

using namespace cuzkops;

namespace {
using F = MsmField;
__device__ std::uint32_t thread_number() { return blockIdx.x * blockDim.x + threadIdx.x; }
} // namespace

#define CUZKOPS_CUT                                                                                                      \
    const MsmPlan *plan, const std::uint32_t *offsets, std::uint32_t n_buckets, std::uint32_t n_chunks, std::uint32_t rounds
#define CUZKOPS_POINTS(name) std::uint64_t *name##_points, const std::uint32_t *name##_entries, std::uint64_t name##_plane
#define CUZKOPS_ROUND                                                                                                    \
    CUZKOPS_POINTS(source), CUZKOPS_POINTS(sums), std::uint32_t *words, std::uint32_t capacity, std::uint32_t *count,     \
        std::uint32_t n_chains, std::uint64_t *prefixes, std::uint64_t *norms, std::uint64_t *products
#define CUZKOPS_ROUND_GIVEN                                                                                              \
    AffineRound<F> {                                                                                                     \
        {source_points, source_entries, source_plane}, {words, capacity, count}, n_chains, prefixes, norms, products,    \
        {sums_points, sums_entries, sums_plane}                                                                          \
    }

CUZKOPS_KERNEL(1024, 1) cuzkops_msm_count_final(CUZKOPS_CUT, std::uint32_t* sums) {
    count_final({plan, offsets, n_buckets, n_chunks, rounds, nullptr}, sums);
}
CUZKOPS_KERNEL(1024, 1) cuzkops_msm_place_final(CUZKOPS_CUT, const std::uint32_t* sums, std::uint32_t* final_offsets) {
    place_final({plan, offsets, n_buckets, n_chunks, rounds, nullptr}, sums, final_offsets);
}

CUZKOPS_KERNEL(PLAN_THREADS, 6)
cuzkops_msm_plan_pairs(CUZKOPS_CUT, const std::uint32_t* final_offsets, std::uint32_t chunk, std::uint32_t round,
                       CUZKOPS_ROUND) {
    const auto work = CUZKOPS_ROUND_GIVEN;
    plan_pairs(
        {plan, offsets, n_buckets, n_chunks, rounds, final_offsets}, chunk, round, work.pairs,
        [&](std::uint32_t place) { return work.source.name(place); },
        [&](std::uint32_t at, std::uint32_t to) { work.sums.put(to, work.source.point(work.source.name(at))); });
}

// Shared memory: the bytes of a PairBuffer for each thread.
CUZKOPS_KERNEL(AFFINE_THREADS, AFFINE_BLOCKS) cuzkops_msm_go_forwards(CUZKOPS_ROUND) {
    extern __shared__ std::uint64_t buffers[];
    const AffineRound<F>::Xs mine{buffers + 2 * threadIdx.x, AFFINE_THREADS};
    if (thread_number() < n_chains) CUZKOPS_ROUND_GIVEN.go_forwards(thread_number(), mine);
}
CUZKOPS_KERNEL(AFFINE_THREADS, 2) cuzkops_msm_invert(CUZKOPS_ROUND) { CUZKOPS_ROUND_GIVEN.invert(thread_number()); }

CUZKOPS_KERNEL(AFFINE_THREADS, AFFINE_BLOCKS) cuzkops_msm_go_backwards(CUZKOPS_ROUND) {
    extern __shared__ std::uint64_t buffers[];
    const AffineRound<F>::Points mine{buffers + 2 * threadIdx.x, AFFINE_THREADS};
    if (thread_number() < n_chains) CUZKOPS_ROUND_GIVEN.go_backwards(thread_number(), mine);
}
