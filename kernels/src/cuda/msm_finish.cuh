// From the slots of all modules to one affine point: slot s of module m counts 2^(bits * m + max(s - 1, 0)) times. First the
// slots of each module are added up, a block each, then the modules. A tree of pairs: the upper one is doubled as often as
// it is above the lower one, and added to it. The doublings are what takes the time, one after the other.
#pragma once
#include "msm_together.cuh"

#ifdef __CUDACC__

namespace cuzkops {

inline constexpr std::uint32_t COMBINE_THREADS = 64; // a group for each pair of slots or modules, 16 at a time

// n sums, `step` apart, the last one at `top`, where the sum of all goes; the others are overwritten. position(i): how
// often the i-th is doubled. Counted from the top, so that what a tree over a number that is no power of two leaves over
// is at the low end, where there is nothing to double: a sum stands where its uppermost part was.
template <class F, class Position>
__device__ void sum_by_pairs(GroupScratch<F>* scratch, std::uint64_t* sums, std::uint64_t top, std::uint32_t n,
                             std::uint32_t step, Position position) {
    auto sum = Together<F>::of(scratch);
    constexpr std::uint32_t GROUPS = COMBINE_THREADS / GROUP_LANES;
    for (std::uint32_t reach = 1; reach < n; reach *= 2) {
        const std::uint32_t n_pairs = (n - reach - 1) / (2 * reach) + 1;
        for (std::uint32_t from = 0; from < n_pairs; from += GROUPS) {
            const std::uint32_t down = (from + threadIdx.x / GROUP_LANES) * 2 * reach;
            const bool is_there = down + reach < n;
            const std::uint32_t high = is_there ? n - 1 - down : n - 1, low = high - reach; // the tops of both halves
            const std::uint32_t bottom_of_low = low + 1 > reach ? low + 1 - reach : 0, bottom_of_high = low + 1;
            const std::uint32_t doublings = is_there ? position(bottom_of_high) - position(bottom_of_low) : 0;
            sum.load(sums, top - static_cast<std::uint64_t>(n - 1 - high) * step);
            for (std::uint32_t i = 0; __any_sync(ALL_LANES, i < doublings); i++) {
                const F twice = sum.doubled();
                if (i < doublings) sum.mine = twice;
            }
            sum.add(sums, top - static_cast<std::uint64_t>(n - 1 - low) * step, is_there);
            if (is_there) sum.store(sums, top - static_cast<std::uint64_t>(n - 1 - high) * step);
        }
        __syncthreads();
    }
}

// A block for each module of each result: its slots become one sum, in the place of its last slot.
template <class F> __device__ void combine_slots(std::uint64_t* slots, std::uint32_t window_bits) {
    __shared__ GroupScratch<F> scratch[COMBINE_THREADS / GROUP_LANES];
    const std::uint64_t top = static_cast<std::uint64_t>(blockIdx.x + 1) * window_bits - 1;
    sum_by_pairs<F>(scratch, slots, top, window_bits, 1, [](std::uint32_t slot) { return slot == 0 ? 0 : slot - 1; });
}

// A block for each result: after combine_slots, the sum of all modules as an affine point.
template <class F>
__device__ void combine_modules(std::uint64_t* slots, std::uint32_t modules, std::uint32_t window_bits,
                                std::uint64_t* results) {
    __shared__ GroupScratch<F> scratch[COMBINE_THREADS / GROUP_LANES];
    const std::uint64_t top = static_cast<std::uint64_t>(blockIdx.x + 1) * modules * window_bits - 1;
    sum_by_pairs<F>(scratch, slots, top, modules, window_bits, [=](std::uint32_t module) { return module * window_bits; });
    if (threadIdx.x == 0) load_sum<F>(slots, top).to_affine().store(results + Affine<F>::LIMBS * blockIdx.x);
}

} // namespace cuzkops

#endif
