// Additions of points to buckets of an MSM in G2 in XYZZ, and of buckets to lines, with everything inlined.
#include "msm_accumulate.cuh"
#include "msm_reduce.cuh"

using namespace cuzkops;
using F = Fp2<FpOf<Carry32Loose>>;

// entries: null where the points are those that affine additions have left, in the order of their buckets.
extern "C" __global__ void __launch_bounds__(128, 2) // 255 registers
cuzkops_msm_accumulate(const MsmPlan* plan, const std::uint32_t* entries, const std::uint32_t* offsets,
                       std::uint32_t n_buckets, std::uint64_t* points, std::uint64_t* buckets, std::uint64_t* heads,
                       std::uint64_t* tails, std::uint32_t* tail_bucket, std::uint32_t n_segments) {
    const std::uint32_t segment = blockIdx.x * blockDim.x + threadIdx.x;
    const Accumulation<F> work{plan, offsets, n_buckets, buckets, heads, tails, tail_bucket};
    const NamedPoints<F> from{points, entries, 0};
    if (segment < n_segments) work.add_segment(segment, [&](std::uint32_t place) { return from.point(from.name(place)); });
}

extern "C" __global__ void __launch_bounds__(128, 2)
cuzkops_msm_sum_lines(std::uint32_t window_bits, std::uint32_t modules, std::uint32_t row_parts, std::uint32_t column_parts,
                      const std::uint64_t* buckets, const std::uint32_t* offsets, std::uint64_t* sums) {
    const std::uint64_t number = static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    sum_line<F>({window_bits, modules, row_parts, column_parts}, buckets, offsets, sums, number);
}
