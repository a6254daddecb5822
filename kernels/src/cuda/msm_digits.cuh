// The digits of scalars. Scalars are split once; msm_sort.cuh reads the parts twice.
#pragma once
#include "msm_shape.cuh"

namespace cuzkops {

// The parts of a scalar take 32 bytes in each group: magnitudes, and a sign in the top bit of each.
template <class F> struct Parts {
    static constexpr int IMAGES = Endomorphism<F>::IMAGES, WORDS = 4 / IMAGES;
    std::uint64_t word[4];

    CUZKOPS_FN static Parts of(const std::uint64_t* scalar) {
        i128 split[IMAGES];
        Endomorphism<F>::split(split, scalar);
        Parts out;
        CUZKOPS_UNROLL for (int image = 0; image < IMAGES; image++) {
            const bool minus = split[image] < 0;
            const u128 magnitude = static_cast<u128>(minus ? -split[image] : split[image]);
            CUZKOPS_UNROLL for (int j = 0; j < WORDS; j++)
                out.word[image * WORDS + j] = static_cast<std::uint64_t>(magnitude >> 64 * j);
            if (minus) out.word[image * WORDS + WORDS - 1] |= SIGN;
        }
        return out;
    }
    CUZKOPS_FN bool is_negative(int image) const { return (word[image * WORDS + WORDS - 1] & SIGN) != 0; }
    CUZKOPS_FN std::uint32_t bits(int image, std::uint32_t from, std::uint32_t count) const {
        std::uint64_t low = word[image * WORDS], high = WORDS == 2 ? word[image * WORDS + WORDS - 1] : 0;
        if (WORDS == 2) high &= ~SIGN;
        else low &= ~SIGN;
        std::uint64_t found = from >= 64 ? high >> (from - 64) : low >> from;
        if (from < 64 && from + count > 64) found |= high << (64 - from);
        return static_cast<std::uint32_t>(found) & ((1u << count) - 1);
    }

private:
    static constexpr std::uint64_t SIGN = std::uint64_t{1} << 63;
};

template <class F>
CUZKOPS_FN void split_scalar(std::uint64_t n_points, const std::uint64_t* scalars, std::uint64_t* parts, std::uint64_t i) {
    if (i >= n_points) return;
    std::uint64_t scalar[4];
    load_limbs<4>(scalar, scalars + 4 * i);
    const Parts<F> split = Parts<F>::of(scalar);
    for (int j = 0; j < 4; j++) parts[4 * i + j] = split.word[j];
}

// Calls visit(key, image, negative) for the digits of one window; key is NO_BUCKET where the digit is 0, so that the lanes
// of a warp stay together. Digits are in (-2^(bits-1), 2^(bits-1)]. The top one does not overflow, because magnitudes are below
// 0.83 * 2^(BITS - 1) and windows * bits >= BITS, bits >= 3.
template <class F, class Visit>
CUZKOPS_FN void for_each_digit(const MsmShape& shape, std::uint32_t window, const std::uint64_t* parts, std::uint64_t i,
                               Visit visit) {
    Parts<F> mine = {};
    if (i < shape.n_points) load_limbs<4>(mine.word, parts + 4 * i);
    const std::uint32_t half = shape.buckets_per_module();
    CUZKOPS_UNROLL for (int image = 0; image < Parts<F>::IMAGES; image++) {
        std::uint32_t carry = 0;
        for (std::uint32_t below = 0; below < window; below++)
            carry = mine.bits(image, below * shape.window_bits, shape.window_bits) + carry > half;
        std::uint32_t digit = mine.bits(image, window * shape.window_bits, shape.window_bits) + carry;
        const bool minus = digit > half;
        if (minus) digit = 2 * half - digit;
        const std::uint32_t key = digit == 0 ? NO_BUCKET : window % shape.modules * half + digit - 1;
        visit(key, image, mine.is_negative(image) != minus);
    }
}

// Adds 1 to counters[key] for each lane of the warp with a key; returns what was there before, in some order of the
// lanes. The lanes with the key of the first one share an atomic operation: witnesses have many equal scalars, 0 and 1
// above all. All lanes of a warp call this together.
CUZKOPS_FN inline std::uint32_t count_one(std::uint32_t* counters, std::uint32_t key) {
#ifdef __CUDA_ARCH__
    const unsigned with_key = __ballot_sync(0xffffffff, key != NO_BUCKET);
    if (with_key == 0) return 0;
    const unsigned lane = threadIdx.x % 32, leader = __ffs(with_key) - 1;
    const bool shared = key == __shfl_sync(0xffffffff, key, leader);
    const unsigned same = __ballot_sync(0xffffffff, shared);
    std::uint32_t before = 0;
    if (key != NO_BUCKET && (!shared || lane == leader)) before = atomicAdd(counters + key, shared ? __popc(same) : 1);
    const std::uint32_t first = __shfl_sync(0xffffffff, before, leader);
    return shared ? first + __popc(same & ((1u << lane) - 1)) : before;
#else
    return key == NO_BUCKET ? 0 : counters[key]++;
#endif
}

} // namespace cuzkops
