// Additions and doublings of XYZZ points by 4 lanes each, where few sums are left and the time of a product counts, not how
// many there are: an addition is 4 products one after the other instead of 14, a doubling 3 instead of 9. Lane i of a
// group holds coordinate i of its point. All lanes of a warp call these functions together, whatever their groups need.
#pragma once
#include "msm_shape.cuh"

#ifdef __CUDACC__

namespace cuzkops {

inline constexpr std::uint32_t GROUP_LANES = 4, ALL_LANES = 0xffffffff;

template <class F> struct alignas(16) GroupScratch {
    F value[GROUP_LANES];
    std::uint64_t unused[2]; // so that the groups of a warp use different banks
};

template <class F> struct Together {
    GroupScratch<F>* scratch; // of the group
    std::uint32_t lane;
    F mine;

    __device__ static Together of(GroupScratch<F>* of_block) {
        return {of_block + threadIdx.x / GROUP_LANES, threadIdx.x % GROUP_LANES, F::zero()};
    }
    __device__ void load(const std::uint64_t* sums, std::uint64_t index) { mine = coordinate(sums, index, lane); }
    __device__ void store(std::uint64_t* sums, std::uint64_t index) const {
        mine.store(sums + F::LIMBS * (4 * index + lane));
    }

    // "add-2008-s", complete. Where `wanted` is false nothing is read and the point stays; it is one for a group.
    __device__ void add(const std::uint64_t* sums, std::uint64_t index, bool wanted = true) {
        const bool takes = is_zero_in(2, mine);
        bool keeps = !wanted, is_same_x = false, is_same_y = false;
        F d = F::zero(), kept = F::zero(), rr = F::zero(), x = F::zero(), product = F::zero();
        F left = mine, right = wanted ? coordinate(sums, index, lane ^ 2) : mine; // U1, S1, U2, S2
        CUZKOPS_ROLLED for (int level = 0; level < 4; level++) {
            product = left * right;
            scratch->value[lane] = product;
            __syncwarp(ALL_LANES);
            if (level == 0) { // lanes 0 and 1 go on with the squares of the differences
                const F u = scratch->value[0], s = scratch->value[1];
                d = scratch->value[lane % 2 + 2] - F::choose(lane % 2 == 0, u, s);
                kept = F::choose(lane == 0, s, u); // for lanes 0 and 1
                const F other = wanted ? coordinate(sums, index, lane) : F::zero();
                keeps = is_zero_in(2, other);
                is_same_x = is_zero_in(0, d);
                is_same_y = is_zero_in(1, d);
                left = F::choose(lane < 2, d, mine);
                right = F::choose(lane < 2, d, other);
            } else if (level == 1) { // PPP, Q, ZZ3
                right = scratch->value[0];
                rr = scratch->value[1];
                left = F::choose(lane == 0, d, F::choose(lane == 1, kept, product));
                if (lane == 3) kept = product;
            } else if (level == 2) { // the two halves of Y3, and ZZZ3
                const F ppp = scratch->value[0], q = scratch->value[1];
                x = rr - ppp - q.doubled();
                left = F::choose(lane == 1, d, kept);
                right = F::choose(lane == 1, q - x, ppp);
                if (lane == 2) kept = product;
            }
            if (level < 3) __syncwarp(ALL_LANES); // the scratch is written again
        }
        const F y = product - scratch->value[0];
        __syncwarp(ALL_LANES);
        const bool doubles = is_same_x && is_same_y && !keeps && !takes;
        F twice = F::zero(); // also where the points are opposite
        if (__any_sync(ALL_LANES, doubles)) twice = doubled_apart(*this);
        if (keeps) return;
        if (takes) mine = coordinate(sums, index, lane);
        else if (is_same_x) mine = F::choose(is_same_y, twice, F::zero());
        else mine = F::choose(lane < 2, F::choose(lane == 0, x, y), F::choose(lane == 2, kept, product));
    }

    // "dbl-2008-s-1" with a = 0.
    __device__ F doubled() const {
        F d = mine, m = F::zero(), w = F::zero(), s = F::zero(), x = F::zero(), product = F::zero(), zz = F::zero();
        if (lane == 1) d = mine.doubled();
        F left = d, right = d;
        CUZKOPS_ROLLED for (int level = 0; level < 3; level++) {
            product = left * right;
            scratch->value[lane] = product;
            __syncwarp(ALL_LANES);
            if (level == 0) {
                const F xx = scratch->value[0], v = scratch->value[1];
                m = xx.doubled() + xx;
                left = F::choose(lane == 3, m, d);
                right = F::choose(lane == 3, m, v);
            } else if (level == 1) {
                s = scratch->value[0];
                w = scratch->value[1];
                zz = product; // of lane 2
                x = scratch->value[3] - s.doubled();
                left = F::choose(lane == 0, m, w);
                right = F::choose(lane == 0, s - x, mine);
            }
            if (level < 2) __syncwarp(ALL_LANES);
        }
        const F y = scratch->value[0] - product;
        __syncwarp(ALL_LANES);
        return F::choose(lane < 2, F::choose(lane == 0, x, y), F::choose(lane == 2, zz, product));
    }

private:
    __device__ static F coordinate(const std::uint64_t* sums, std::uint64_t index, std::uint32_t number) {
        return F::load(sums + F::LIMBS * (4 * index + number));
    }
    // Whether the value that one lane of the group has is 0.
    __device__ bool is_zero_in(std::uint32_t of_lane, const F& value) const {
        const unsigned zeros = __ballot_sync(ALL_LANES, value.is_zero());
        return (zeros >> (threadIdx.x % 32 - lane + of_lane) & 1) != 0;
    }
    __device__ __noinline__ static F doubled_apart(Together point) { return point.doubled(); }
};

} // namespace cuzkops

#endif
