// Products in Fp by a warp each, a column a lane: for chains of products, each of which needs the one before.
//
// A number is 14 signed limbs of 28 bits in shared memory, each within 2^27 + 2, and is within 1.01 moduli of 0. It stands
// for itself times 2^392 ("wide"). Lane k adds up the products of limbs i and k - i; carries go two lanes up at once and
// then one, which leaves limbs so small that the low half of a sum that 2^392 divides is 0 as it stands.
#pragma once
#include "msm_shape.cuh"

#ifdef __CUDACC__

namespace cuzkops {

inline constexpr int WIDE_LIMBS = 14, WIDE_BITS = 28;
inline constexpr std::uint32_t WIDE_MASK = (1u << WIDE_BITS) - 1;

struct WideConstants {
    std::int32_t modulus[WIDE_LIMBS] = {}, inverse[WIDE_LIMBS] = {}; // -1 / modulus mod 2^392
    std::int32_t one[WIDE_LIMBS] = {};                               // 2^384: from wide to Montgomery form
    std::int32_t enter[WIDE_LIMBS] = {};                             // 2^400: from Montgomery form to wide

    CUZKOPS_FN static constexpr std::uint32_t limb(const std::uint64_t* words, int k) {
        const int word = WIDE_BITS * k / 64, shift = WIDE_BITS * k % 64;
        std::uint64_t bits = words[word] >> shift;
        if (shift > 64 - WIDE_BITS && word < 5) bits |= words[word + 1] << (64 - shift);
        return static_cast<std::uint32_t>(bits) & WIDE_MASK;
    }
    CUZKOPS_FN static constexpr WideConstants make() {
        WideConstants out;
        std::uint64_t p[6] = {}, r[6] = {};
        for (int j = 0; j < 6; j++) p[j] = FpModulus::modulus(j), r[j] = FpModulus::one(j);
        for (int k = 0; k < WIDE_LIMBS; k++) {
            out.modulus[k] = static_cast<std::int32_t>(limb(p, k));
            out.one[k] = static_cast<std::int32_t>(limb(r, k));
        }
        for (int doubling = 0; doubling < 16; doubling++) {
            for (int j = 5; j >= 0; j--) r[j] = r[j] << 1 | (j > 0 ? r[j - 1] >> 63 : 0);
            bool is_below = false;
            for (int j = 0; j < 6; j++)
                if (r[j] != p[j]) is_below = r[j] < p[j];
            std::uint64_t borrow = 0;
            for (int j = 0; j < 6 && !is_below; j++) {
                const std::uint64_t before = r[j], taken = before - p[j];
                r[j] = taken - borrow;
                borrow = (before < p[j]) | (taken < borrow);
            }
        }
        for (int k = 0; k < WIDE_LIMBS; k++) out.enter[k] = static_cast<std::int32_t>(limb(r, k));
        std::uint64_t sum[WIDE_LIMBS] = {1}; // 1 + inverse * modulus, limb by limb made 0
        for (int k = 0; k < WIDE_LIMBS; k++) {
            const std::uint64_t digit = sum[k] * FpModulus::INV & WIDE_MASK;
            out.inverse[k] = static_cast<std::int32_t>(digit);
            std::uint64_t carry = 0;
            for (int j = k; j < WIDE_LIMBS; j++) {
                carry += sum[j] + digit * static_cast<std::uint64_t>(out.modulus[j - k]);
                sum[j] = carry & WIDE_MASK;
                carry >>= WIDE_BITS;
            }
        }
        return out;
    }
    __device__ static std::int32_t modulus_limb(int k) {
        static constexpr WideConstants all = make();
        return k < 0 || k >= WIDE_LIMBS ? 0 : all.modulus[k];
    }
    __device__ static std::int32_t inverse_limb(int k) {
        static constexpr WideConstants all = make();
        return k < 0 || k >= WIDE_LIMBS ? 0 : all.inverse[k];
    }
    __device__ static std::int32_t one_limb(int k) {
        static constexpr WideConstants all = make();
        return all.one[k];
    }
    __device__ static std::int32_t enter_limb(int k) {
        static constexpr WideConstants all = make();
        return all.enter[k];
    }
};

// sum + a b. Written as an instruction, because nvcc extends factors that stay in registers to 64 bits ahead of the loop and
// then multiplies those.
CUZKOPS_FN inline std::int64_t multiply_add(std::int32_t a, std::int32_t b, std::int64_t sum) {
#ifdef __CUDA_ARCH__
    std::int64_t out;
    asm("mad.wide.s32 %0, %1, %2, %3;" : "=l"(out) : "r"(a), "r"(b), "l"(sum));
    return out;
#else
    return sum + static_cast<std::int64_t>(a) * b;
#endif
}

// A number with 0 around its limbs, so that each lane reads a limb whatever its column.
struct alignas(16) Wide {
    static constexpr int FIRST = 16;
    std::int32_t word[48];

    __device__ std::int32_t& limb(int k) { return word[FIRST + k]; }
    __device__ std::int32_t limb(int k) const { return word[FIRST + k]; }
};

// What a lane needs for the products of its warp.
struct WideLane {
    Wide* scratch; // of the warp: two numbers
    int lane;
    std::int32_t modulus[WIDE_LIMBS], inverse[WIDE_LIMBS]; // limbs lane - i, for column `lane`

    __device__ __forceinline__ static WideLane of(Wide* of_warp) {
        WideLane out;
        out.scratch = of_warp;
        out.lane = static_cast<int>(threadIdx.x % 32);
        CUZKOPS_UNROLL for (int i = 0; i < WIDE_LIMBS; i++) {
            out.modulus[i] = WideConstants::modulus_limb(out.lane - i);
            out.inverse[i] = out.lane < WIDE_LIMBS ? WideConstants::inverse_limb(out.lane - i) : 0;
        }
        return out;
    }

    // The column of a b. Columns may be added up and multiplied by small numbers, up to 2^62.
    __device__ __forceinline__ std::int64_t column(const Wide& a, const Wide& b) const {
        std::int32_t limbs[16];
        load_row(limbs, a.word + Wide::FIRST);
        const std::int32_t* const from = b.word + Wide::FIRST + lane;
        std::int64_t even = 0, odd = 0;
        CUZKOPS_UNROLL for (int i = 0; i < WIDE_LIMBS; i += 2) {
            even = multiply_add(limbs[i], from[-i], even);
            odd = multiply_add(limbs[i + 1], from[-i - 1], odd);
        }
        return even + odd;
    }

    // out = the number of these columns / 2^392.
    __device__ __forceinline__ void reduce(Wide& out, std::int64_t column) const {
        scratch[0].word[lane] = carried(column);
        __syncwarp(0xffffffff);
        scratch[1].word[lane] = carried(row(scratch[0].word, inverse)); // what leaves column 13 counts 2^392
        __syncwarp(0xffffffff);
        column += row(scratch[1].word, modulus);
        std::int32_t limb = carried(column);
        const std::int32_t carry = (limb + (1 << (WIDE_BITS - 1))) >> WIDE_BITS;
        limb -= carry << WIDE_BITS;
        limb += from_below(carry, 1);
        if (lane >= WIDE_LIMBS && lane < 2 * WIDE_LIMBS) out.limb(lane - WIDE_LIMBS) = limb;
    }

private:
    __device__ __forceinline__ static void load_row(std::int32_t* to, const std::int32_t* from) { // 16 words, 4 at a time
        struct alignas(16) Four {
            std::int32_t word[4];
        };
        CUZKOPS_UNROLL for (int i = 0; i < 16; i += 4) {
            const Four four = *reinterpret_cast<const Four*>(from + i);
            CUZKOPS_UNROLL for (int j = 0; j < 4; j++) to[i + j] = four.word[j];
        }
    }
    __device__ __forceinline__ static std::int64_t row(const std::int32_t* numbers, const std::int32_t* mine) {
        std::int32_t limbs[16];
        load_row(limbs, numbers);
        std::int64_t even = 0, odd = 0;
        CUZKOPS_UNROLL for (int i = 0; i < WIDE_LIMBS; i += 2) {
            even = multiply_add(limbs[i], mine[i], even);
            odd = multiply_add(limbs[i + 1], mine[i + 1], odd);
        }
        return even + odd;
    }
    __device__ __forceinline__ std::int32_t from_below(std::int32_t value, int step) const {
        const auto found = static_cast<std::int32_t>(__shfl_up_sync(0xffffffff, static_cast<std::uint32_t>(value), step));
        return lane >= step ? found : 0;
    }
    // The limb of a column once each has given its carries to the two above.
    __device__ __forceinline__ std::int32_t carried(std::int64_t column) const {
        constexpr std::int64_t HALF = 1 << (WIDE_BITS - 1);
        const std::int64_t high = (column + HALF) >> WIDE_BITS;
        const auto low = static_cast<std::int32_t>(column - (high << WIDE_BITS));
        const auto top = static_cast<std::int32_t>((high + HALF) >> WIDE_BITS);
        const auto middle = static_cast<std::int32_t>(static_cast<std::uint32_t>(high) - (static_cast<std::uint32_t>(top) << WIDE_BITS));
        return low + from_below(middle, 1) + from_below(top, 2);
    }
};

// Whether a - b, both within 1.01 moduli of 0, is 0 modulo the modulus: by a warp, a lane for each multiple that it may be.
__device__ inline bool is_same(const Wide& a, const Wide& b) {
    const int multiple = static_cast<int>(threadIdx.x % 32) - 2;
    std::int64_t carry = 0;
    bool is_zero = multiple <= 2;
    for (int k = 0; k < WIDE_LIMBS; k++) {
        carry += static_cast<std::int64_t>(a.limb(k)) - b.limb(k) -
                 static_cast<std::int64_t>(multiple) * WideConstants::modulus_limb(k);
        is_zero = is_zero && (static_cast<std::uint32_t>(carry) & WIDE_MASK) == 0;
        carry >>= WIDE_BITS;
    }
    return __any_sync(0xffffffff, is_zero && carry == 0);
}

// By one thread: the canonical number, which is within 2 moduli of 0.
template <class F> __device__ F canonical(const Wide& a) {
    F out = F::zero();
    std::int64_t carry = 0;
    for (int k = 0; k < WIDE_LIMBS; k++) {
        carry += a.limb(k) + 2 * static_cast<std::int64_t>(WideConstants::modulus_limb(k));
        const std::uint64_t digit = static_cast<std::uint32_t>(carry) & WIDE_MASK;
        const int word = WIDE_BITS * k / 64, shift = WIDE_BITS * k % 64;
        out.limb[word] |= digit << shift;
        if (shift > 64 - WIDE_BITS && word < 5) out.limb[word + 1] |= digit >> (64 - shift);
        carry >>= WIDE_BITS;
    }
    while (!out.is_canonical()) {
        std::uint64_t borrow = 0;
        for (int j = 0; j < F::LIMBS; j++) {
            const std::uint64_t before = out.limb[j], taken = before - F::Modulus::modulus(j);
            out.limb[j] = taken - borrow;
            borrow = (before < F::Modulus::modulus(j)) | (taken < borrow);
        }
    }
    return out;
}

} // namespace cuzkops

#endif
