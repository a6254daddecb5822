// From the slots of all modules to one affine point: slot s of module m counts 2^(bits * m + max(s - 1, 0)) times. A tree
// of pairs: the upper one is doubled as often as it is above the lower one, and added to it. The doublings are what
// takes the time, one after the other, so 4 lanes share each: its 9 products have a depth of 3.
#pragma once
#include "msm_shape.cuh"

#ifdef __CUDACC__

namespace cuzkops {

inline constexpr std::uint32_t FINISH_THREADS = 128, FINISH_LANES = 4;

// "dbl-2008-s-1" with a = 0, by 4 lanes that all hold the point; scratch is theirs.
template <class F> __device__ void double_together(Xyzz<F>& p, F* scratch, std::uint32_t lane, std::uint32_t lanes) {
    const auto exchange = [&](const F& mine) {
        scratch[lane] = mine;
        __syncwarp(lanes);
    };
    const F u = p.y.doubled();
    const F first = lane == 0 ? u : p.x;
    exchange(first.square());
    const F v = scratch[0], xx = scratch[1];
    __syncwarp(lanes);
    const F m = xx.doubled() + xx;
    const F left = lane == 0 ? u : lane == 1 ? p.x : lane == 2 ? p.zz : m;
    const F right = lane == 3 ? m : v;
    exchange(left * right);
    const F w = scratch[0], s = scratch[1];
    p.zz = scratch[2];
    p.x = scratch[3] - s.doubled();
    __syncwarp(lanes);
    const F last_left = lane == 1 ? m : w;
    const F last_right = lane == 0 ? p.y : lane == 1 ? s - p.x : p.zzz;
    exchange(last_left * last_right);
    p.y = scratch[1] - scratch[0];
    p.zzz = scratch[2];
    __syncwarp(lanes);
}

// One block. slots: modules * bits sums, overwritten; result: one affine point.
template <class F>
__device__ void combine_slots(std::uint64_t* slots, std::uint32_t modules, std::uint32_t window_bits, std::uint64_t* result) {
    __shared__ F scratch[FINISH_THREADS];
    const std::uint32_t group = threadIdx.x / FINISH_LANES, lane = threadIdx.x % FINISH_LANES;
    const std::uint32_t lanes = 0xfu << (threadIdx.x % 32 / FINISH_LANES * FINISH_LANES);
    const auto position = [&](std::uint32_t slot) {
        const std::uint32_t within = slot % window_bits;
        return slot / window_bits * window_bits + (within == 0 ? 0 : within - 1);
    };
    // Counted from the top, so that what a tree over a number that is no power of two leaves over is at the low end,
    // where there is nothing to double: a sum stands where its uppermost slot was.
    const std::uint32_t n_slots = modules * window_bits;
    for (std::uint32_t reach = 1; reach < n_slots; reach *= 2) {
        for (std::uint32_t down = group * 2 * reach; down + reach < n_slots;
             down += FINISH_THREADS / FINISH_LANES * 2 * reach) {
            const std::uint32_t high = n_slots - 1 - down, low = high - reach; // both the tops of their halves
            const std::uint32_t bottom_of_low = low + 1 > reach ? low + 1 - reach : 0, bottom_of_high = low + 1;
            Xyzz<F> upper = load_sum<F>(slots, high);
            const std::uint32_t doublings = position(bottom_of_high) - position(bottom_of_low);
            for (std::uint32_t i = 0; i < doublings; i++) double_together(upper, scratch + threadIdx.x - lane, lane, lanes);
            if (lane == 0) store_sum(slots, high, Xyzz<F>::sum_apart(upper, load_sum<F>(slots, low)));
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) load_sum<F>(slots, n_slots - 1).to_affine().store(result);
}

} // namespace cuzkops

#endif
