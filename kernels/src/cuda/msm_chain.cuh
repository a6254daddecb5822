// The chain of doublings at the end of an MSM in G1, by 5 warps that share each step (msm_wide.cuh). A point is
// (X, W, Z) with x = X / Z and y = W / Z^2. With b = 4,
//   X' = X^4 - 32 X Z^3,  Z' = 4 (X^3 Z + 4 Z^4),  W' = W * 2 (X^6 + 80 X^3 Z^3 - 128 Z^6),
// so that X and Z, two products deep, go on without W, whose factors follow behind. (The formula of 2P's x, and of the
// quotient of both y; brought to the denominator Z'^2 = 16 Z^2 (X^3 + 4 Z^3)^2.) No point but infinity, Z = 0, has
// double Z = 0: the group has odd order.
#pragma once
#include "msm_finish.cuh"
#include "msm_wide.cuh"

#ifdef __CUDACC__

namespace cuzkops {

inline constexpr std::uint32_t CHAIN_WARPS = 5, CHAIN_THREADS = 32 * CHAIN_WARPS;

template <class F> struct Chain {
    struct Numbers {
        Wide x[2], z[2], w; // x[now], z[now] and w are the point
        Wide xx, zz, xz, factor, difference, u[2], v[2];
        Wide other_x, other_w, other_z, coordinates[4], enter, one, results[3];
        Wide scratch[2 * CHAIN_WARPS];
        bool is_same_x, is_same_y;
    };
    Numbers& at;
    WideLane warp_lane;
    std::uint32_t warp;
    int now;
    bool is_infinity; // the same for all threads

    // All threads of a block of CHAIN_THREADS; the point is infinity.
    __device__ static Chain of(Numbers& numbers) {
        auto* const words = reinterpret_cast<std::uint32_t*>(&numbers);
        for (std::uint32_t i = threadIdx.x; i < sizeof numbers / 4; i += CHAIN_THREADS) words[i] = 0;
        __syncthreads();
        const std::uint32_t warp = threadIdx.x / 32;
        if (threadIdx.x < WIDE_LIMBS) {
            numbers.enter.limb(threadIdx.x) = WideConstants::enter_limb(threadIdx.x);
            numbers.one.limb(threadIdx.x) = WideConstants::one_limb(threadIdx.x);
        }
        __syncthreads();
        return {numbers, WideLane::of(numbers.scratch + 2 * warp), warp, 0, true};
    }

    __device__ void double_times(std::uint32_t times) {
        if (is_infinity) return;
        for (std::uint32_t i = 0; i < times + 2; i++) { // w is two steps behind
            const Wide &x = at.x[now], &z = at.z[now];
            const Wide &u = at.u[now ^ 1], &v = at.v[now ^ 1]; // of the step before: X^3, 16 Z^3
            const bool goes_on = i < times, has_factor = i >= 1 && i <= times;
            if (warp == 0 && goes_on) put(at.xx, column(x, x));
            if (warp == 1 && goes_on) put(at.zz, 4 * column(z, z));
            if (warp == 2 && goes_on) put(at.xz, column(x, z));
            if (warp == 3 && i >= 2) put(at.w, column(at.w, at.factor));
            if (warp == 4 && has_factor && warp_lane.lane < WIDE_LIMBS)
                at.difference.limb(warp_lane.lane) = 10 * u.limb(warp_lane.lane) - v.limb(warp_lane.lane);
            __syncthreads();
            if (warp == 0 && goes_on) put(at.x[now ^ 1], column(at.xx, at.xx) - 8 * column(at.xz, at.zz));
            if (warp == 1 && goes_on) put(at.z[now ^ 1], 4 * column(at.xz, at.xx) + column(at.zz, at.zz));
            if (warp == 2 && goes_on) put(at.u[now], column(at.xx, x));
            if (warp == 3 && goes_on) put(at.v[now], 4 * column(at.zz, z));
            if (warp == 4 && has_factor) put(at.factor, 2 * column(u, u) + column(v, at.difference));
            __syncthreads();
            now ^= 1;
        }
    }

    // Adds a sum in XYZZ form, whatever both points are.
    __device__ void add(const std::uint64_t* sums, std::uint64_t index) {
        if (!enter(sums, index)) return;
        if (is_infinity) {
            copy(at.x[now], at.other_x, at.z[now], at.other_z, at.w, at.other_w);
            is_infinity = false;
            return;
        }
        Wide &u1 = at.xx, &u2 = at.zz, &z12 = at.xz, &s1 = at.u[0], &s2 = at.u[1], &zz1 = at.v[0], &zz2 = at.v[1];
        if (warp == 0) put(u1, column(at.x[now], at.other_z));
        if (warp == 1) put(u2, column(at.other_x, at.z[now]));
        if (warp == 2) put(z12, column(at.z[now], at.other_z));
        if (warp == 3) put(zz1, column(at.z[now], at.z[now]));
        if (warp == 4) put(zz2, column(at.other_z, at.other_z));
        __syncthreads();
        Wide &dd = at.factor, &c = at.difference; // (u2 - u1)^2, (u2 - u1) z12
        if (warp == 0) put(s1, column(at.w, zz2));
        if (warp == 1) put(s2, column(at.other_w, zz1));
        if (warp == 2) put(dd, column(u2, u2) - 2 * column(u1, u2) + column(u1, u1));
        if (warp == 3) put(c, column(u2, z12) - column(u1, z12));
        if (warp == 4) at.is_same_x = is_same(u1, u2);
        __syncthreads();
        Wide &t = at.other_x, &g = at.other_w, &h = at.other_z; // dd z12, (s2 - s1) c, s1 dd
        if (warp == 0) put(t, column(dd, z12));
        if (warp == 1) put(g, column(s2, c) - column(s1, c));
        if (warp == 2) put(h, column(s1, dd));
        if (warp == 4) at.is_same_y = is_same(s1, s2);
        __syncthreads();
        if (at.is_same_x) {
            if (at.is_same_y) double_times(1);
            else is_infinity = true;
            return;
        }
        Wide &x3 = at.x[now], &z3 = at.z[now], &tu = zz1;
        if (warp == 0)
            put(x3, column(s2, s2) - 2 * column(s1, s2) + column(s1, s1) - column(t, u1) - column(t, u2));
        if (warp == 1) put(tu, column(t, u1));
        if (warp == 2) put(z3, column(c, c));
        __syncthreads();
        if (warp == 0) put(at.w, column(g, tu) - column(g, x3) - column(h, z3));
        __syncthreads();
    }

    __device__ void store(std::uint64_t* result) {
        const Wide* const numbers[3] = {&at.x[now], &at.z[now], &at.w};
        if (warp < 3) put(at.results[warp], column(*numbers[warp], at.one));
        __syncthreads();
        if (threadIdx.x != 0) return;
        Affine<F> point = Affine<F>::infinity();
        if (!is_infinity) {
            const F inverse = canonical<F>(at.results[1]).inverse();
            point = {canonical<F>(at.results[0]) * inverse, canonical<F>(at.results[2]) * inverse.square()};
        }
        point.store(result);
    }

private:
    __device__ std::int64_t column(const Wide& a, const Wide& b) const { return warp_lane.column(a, b); }
    __device__ void put(Wide& to, std::int64_t column) const { warp_lane.reduce(to, column); }
    __device__ void copy(Wide& a, const Wide& from_a, Wide& b, const Wide& from_b, Wide& c, const Wide& from_c) {
        if (threadIdx.x < WIDE_LIMBS) {
            a.limb(threadIdx.x) = from_a.limb(threadIdx.x);
            b.limb(threadIdx.x) = from_b.limb(threadIdx.x);
            c.limb(threadIdx.x) = from_c.limb(threadIdx.x);
        }
        __syncthreads();
    }
    // (x, y, zz, zzz) as other_x, other_w, other_z; false for infinity.
    __device__ bool enter(const std::uint64_t* sums, std::uint64_t index) {
        const std::uint64_t* const from = sums + 4 * F::LIMBS * index;
        if (F::load(from + 2 * F::LIMBS).is_zero()) return false;
        Wide *const x = at.coordinates, *const y = x + 1, *const zz = x + 2, *const zzz = x + 3;
        if (warp < 4) {
            if (warp_lane.lane < WIDE_LIMBS)
                x[warp].limb(warp_lane.lane) = static_cast<std::int32_t>(WideConstants::limb(from + F::LIMBS * warp, warp_lane.lane));
            __syncwarp(0xffffffff);
            put(x[warp], column(x[warp], at.enter));
        }
        __syncthreads();
        if (warp == 0) put(at.other_x, column(*x, *zzz));
        if (warp == 1) put(at.other_z, column(*zz, *zzz));
        if (warp == 2) put(at.factor, column(*y, *zz));
        __syncthreads();
        if (warp == 0) put(at.other_w, column(at.factor, at.other_z));
        __syncthreads();
        return true;
    }
};

// A block for each result: after combine_slots, the sum of all modules as an affine point, from the top module down.
template <class F>
__device__ void combine_modules_by_chain(std::uint64_t* slots, std::uint32_t modules, std::uint32_t window_bits,
                                         std::uint64_t* results) {
    __shared__ typename Chain<F>::Numbers numbers;
    const std::uint64_t first = static_cast<std::uint64_t>(blockIdx.x) * modules * window_bits;
    std::uint64_t* const result = results + Affine<F>::LIMBS * blockIdx.x;
    if (modules == 1) {
        if (threadIdx.x == 0) load_sum<F>(slots, first + window_bits - 1).to_affine().store(result);
        return;
    }
    auto sum = Chain<F>::of(numbers);
    for (std::uint32_t module = modules; module-- > 0;) {
        sum.double_times(window_bits);
        sum.add(slots, first + static_cast<std::uint64_t>(module + 1) * window_bits - 1);
    }
    sum.store(result);
}

// What is quickest in each group.
template <class F>
__device__ void finish_modules(std::uint64_t* slots, std::uint32_t modules, std::uint32_t window_bits,
                               std::uint64_t* results) {
    if constexpr (F::LIMBS == 6) combine_modules_by_chain<F>(slots, modules, window_bits, results);
    else combine_modules<F>(slots, modules, window_bits, results);
}

} // namespace cuzkops

#endif
