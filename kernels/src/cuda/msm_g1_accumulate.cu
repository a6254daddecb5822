// Where an MSM in G1 spends most of its time: additions of points to buckets, with everything inlined.
#include "msm_accumulate.cuh"

using namespace cuzkops;

extern "C" __global__ void __launch_bounds__(128, 3) // 168 registers
cuzkops_msm_accumulate(const MsmPlan* plan, const std::uint32_t* entries, const std::uint32_t* offsets,
                       std::uint32_t n_buckets, const std::uint64_t* records, std::uint64_t* buckets,
                       std::uint64_t* heads, std::uint64_t* tails, std::uint32_t* tail_bucket, std::uint32_t n_segments) {
    const std::uint32_t segment = blockIdx.x * blockDim.x + threadIdx.x;
    const Accumulation<FpOf<Carry32Loose>> work{plan, entries, offsets, n_buckets, records, buckets, heads, tails, tail_bucket};
    if (segment < n_segments) work.add_segment(segment);
}
