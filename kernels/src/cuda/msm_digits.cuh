// The digits of scalars. Scalars are split once; msm_sort.cuh reads the parts once for each window, twice.
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

    // Whether all magnitudes are at most `limit`.
    CUZKOPS_FN bool are_at_most(std::uint64_t limit) const {
        bool all = true;
        CUZKOPS_UNROLL for (int j = 0; j < 4; j++) {
            const std::uint64_t bits = j % WORDS == WORDS - 1 ? word[j] & ~SIGN : word[j];
            all = all && bits <= (j % WORDS == 0 ? limit : 0);
        }
        return all;
    }

private:
    static constexpr std::uint64_t SIGN = std::uint64_t{1} << 63;
};

// What a scalar needs: nothing, a digit of window 0 for some of its parts, or digits of any windows.
enum Width : std::uint32_t { ZERO, NARROW, WIDE };
template <class F> CUZKOPS_FN Width width_of(const Parts<F>& parts, std::uint32_t window_bits) {
    if (!parts.are_at_most(std::uint64_t{1} << (window_bits - 1))) return WIDE;
    return parts.are_at_most(0) ? ZERO : NARROW;
}

// Calls visit(key, image, negative) for the digits of one window; key is NO_BUCKET where the digit is 0, and for a scalar
// that is not there, so that the lanes of a warp stay together. Digits are in (-2^(bits-1), 2^(bits-1)]. The top one does not overflow, because magnitudes are below
// 0.83 * 2^(BITS - 1) and windows * bits >= BITS, bits >= 3.
template <class F, class Visit>
CUZKOPS_FN void for_each_digit(const MsmShape& shape, std::uint32_t window, const std::uint64_t* parts, std::uint64_t i,
                               bool is_there, Visit visit) {
    Parts<F> mine = {};
    if (is_there) load_limbs<4>(mine.word, parts + 4 * i);
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
