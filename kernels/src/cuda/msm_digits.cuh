// Scalars to entries: how many there are of each bucket, and then, with the places that the scan has made of that, the
// entries in order of their buckets. The recoding is done in both passes: it is cheaper than keeping its result.
#pragma once
#include "msm_shape.cuh"

namespace cuzkops {

// Calls visit(key, image, window, negative) for each digit; key is NO_BUCKET where the digit is 0, so that the lanes of a
// warp stay together. Digits are in (-2^(bits-1), 2^(bits-1)]. The top one does not overflow, because magnitudes are
// below 0.83 * 2^(BITS - 1) and windows * bits >= BITS, bits >= 3.
// Windows outside [from, to) are left out.
template <class F, class Visit>
CUZKOPS_FN void for_each_digit(const MsmShape& shape, std::uint32_t from, std::uint32_t to, const std::uint64_t* scalar,
                               Visit visit) {
    using Map = Endomorphism<F>;
    i128 parts[Map::IMAGES];
    Map::split(parts, scalar);
    const std::uint32_t half = shape.buckets_per_module();
    for (int image = 0; image < Map::IMAGES; image++) {
        const bool minus = parts[image] < 0;
        u128 left = static_cast<u128>(minus ? -parts[image] : parts[image]);
        std::uint32_t carry = 0, module = 0;
        for (std::uint32_t window = 0; window < to; window++) {
            std::uint32_t digit = (static_cast<std::uint32_t>(left) & (2 * half - 1)) + carry;
            left >>= shape.window_bits;
            carry = digit > half;
            if (carry) digit = 2 * half - digit;
            const std::uint32_t key = digit == 0 ? NO_BUCKET : module * half + digit - 1;
            if (window >= from) visit(key, image, window, minus != (carry != 0));
            if (++module == shape.modules) module = 0;
        }
    }
}

// Adds 1 to counters[key] for each lane of the warp with a key; returns what was there before, in some order of the
// lanes. Lanes with the same key, of which witnesses have many, share one atomic operation.
CUZKOPS_FN inline std::uint32_t count_one(std::uint32_t* counters, std::uint32_t key) {
#ifdef __CUDA_ARCH__
    const unsigned same = __match_any_sync(0xffffffff, key);
    const unsigned lane = threadIdx.x % 32, leader = __ffs(same) - 1;
    std::uint32_t before = 0;
    if (lane == leader && key != NO_BUCKET) before = atomicAdd(counters + key, __popc(same));
    return __shfl_sync(0xffffffff, before, leader) + __popc(same & ((1u << lane) - 1));
#else
    return key == NO_BUCKET ? 0 : counters[key]++;
#endif
}

// All threads of a warp call these together, also those past the end.
template <class F>
CUZKOPS_FN void count_digits(const MsmShape& shape, std::uint32_t from, std::uint32_t to, const std::uint64_t* scalars,
                             std::uint32_t* counts, std::uint64_t i) {
    std::uint64_t scalar[4] = {};
    if (i < shape.n_points) load_limbs<4>(scalar, scalars + 4 * i);
    for_each_digit<F>(shape, from, to, scalar, [&](std::uint32_t key, int, std::uint32_t, bool) { count_one(counts, key); });
}

// places: where the next entry of each bucket goes.
template <class F>
CUZKOPS_FN void place_entries(const MsmShape& shape, std::uint32_t from, std::uint32_t to, const std::uint64_t* scalars,
                              std::uint32_t* places, std::uint32_t* entries, std::uint64_t i) {
    std::uint64_t scalar[4] = {};
    if (i < shape.n_points) load_limbs<4>(scalar, scalars + 4 * i);
    for_each_digit<F>(shape, from, to, scalar, [&](std::uint32_t key, int image, std::uint32_t window, bool negative) {
        const std::uint32_t place = count_one(places, key);
        if (key == NO_BUCKET) return;
        const std::uint64_t record = window / shape.modules * shape.n_points + i;
        entries[place] = static_cast<std::uint32_t>(record * Endomorphism<F>::IMAGES + image) | (negative ? NEGATIVE : 0);
    });
}

} // namespace cuzkops
