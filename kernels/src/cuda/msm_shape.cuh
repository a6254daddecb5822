// What all stages of a multi-scalar multiplication agree on. Pippenger, "On the evaluation of powers and monomials", SIAM
// J. Comput. 9 (1980): scalars are split by an endomorphism (endomorphism.hpp) and recoded into signed digits of a window;
// each digit that is not 0 makes an entry; entries are sorted by bucket, each bucket is added up, and bucket d counts d
// times. The stages, in order: msm_digits.cuh, msm_sort.cuh, msm_accumulate.cuh, msm_reduce.cuh, msm_finish.cuh; msm_bases.cuh
// makes the records that entries name.
//
// Window w uses table w / modules and the buckets of module w % modules: table t holds 2^(bits * modules * t) times the
// points. Without tables there are as many modules as windows.
#pragma once
#include "endomorphism.hpp"

namespace cuzkops {

struct MsmShape {
    std::uint64_t n_points;
    std::uint32_t window_bits, windows, modules;

    CUZKOPS_FN std::uint32_t buckets_per_module() const { return 1u << (window_bits - 1); }
    CUZKOPS_FN std::uint32_t n_buckets() const { return modules * buckets_per_module(); }
};

// Written by the sort, read by the stages after it: the host does not wait for these numbers.
struct MsmPlan {
    std::uint32_t n_entries, segment_length; // entries that one thread adds up
};

inline constexpr std::uint32_t NEGATIVE = 1u << 31, NO_BUCKET = 0xffffffff;

// Limbs at an address that is a multiple of 16, which stay as they are during the kernel.
template <int N> CUZKOPS_FN void load_limbs(std::uint64_t* out, const std::uint64_t* from) {
#ifdef __CUDA_ARCH__
    CUZKOPS_UNROLL for (int j = 0; j < N; j += 2) {
        const ulonglong2 pair = __ldg(reinterpret_cast<const ulonglong2*>(from + j));
        out[j] = pair.x;
        out[j + 1] = pair.y;
    }
#else
    for (int j = 0; j < N; j++) out[j] = from[j];
#endif
}
template <class F> CUZKOPS_FN Affine<F> load_point(const std::uint64_t* from) {
    std::uint64_t limbs[Affine<F>::LIMBS];
    load_limbs<Affine<F>::LIMBS>(limbs, from);
    return Affine<F>::load(limbs);
}

// Sums in XYZZ form: 4 coordinates in a row.
template <class F> CUZKOPS_FN Xyzz<F> load_sum(const std::uint64_t* sums, std::uint64_t index) {
    const std::uint64_t* from = sums + 4 * F::LIMBS * index;
    return {F::load(from), F::load(from + F::LIMBS), F::load(from + 2 * F::LIMBS), F::load(from + 3 * F::LIMBS)};
}
template <class F> CUZKOPS_FN void store_sum(std::uint64_t* sums, std::uint64_t index, const Xyzz<F>& sum) {
    std::uint64_t* to = sums + 4 * F::LIMBS * index;
    sum.x.store(to);
    sum.y.store(to + F::LIMBS);
    sum.zz.store(to + 2 * F::LIMBS);
    sum.zzz.store(to + 3 * F::LIMBS);
}

// A base as an entry finds it: record = table * n_points + point, IMAGES images each (endomorphism.hpp). An entry is
// record * IMAGES + image, with NEGATIVE where the digit is.
//
// G1: x | y | beta x, 144 bytes. Image 0 is the first two; image 1, (beta x, -y), the last two.
template <class F> struct Record;
template <class M, class L> struct Record<Field<M, L>> {
    using F = Field<M, L>;
    static constexpr int LIMBS = 3 * F::LIMBS;
    static constexpr bool ADDED_COMPACTLY = true; // 5 % faster in G1, 13 % slower in G2: docs/decisions/0003-msm.md

    CUZKOPS_FN static void store(std::uint64_t* records, std::uint64_t index, const Affine<F>& p) {
        std::uint64_t* out = records + LIMBS * index;
        p.store(out);
        Endomorphism<F>::image(p, 1).x.store(out + 2 * F::LIMBS);
    }
    CUZKOPS_FN static const std::uint64_t* address(const std::uint64_t* records, std::uint32_t entry) {
        const std::uint32_t selected = entry & ~NEGATIVE;
        return records + static_cast<std::uint64_t>(LIMBS) * (selected / 2) + F::LIMBS * (selected % 2);
    }
    CUZKOPS_FN static Affine<F> load(const std::uint64_t* records, std::uint32_t entry) {
        const std::uint32_t image = entry % 2;
        const std::uint64_t* from = address(records, entry);
        const Affine<F> p = load_point<F>(from);
        const F y = image ? p.x : p.y;
        const bool negative = ((entry & NEGATIVE) != 0) != (image != 0);
        return {image ? p.y : p.x, negative ? y.negated() : y};
    }
};

// G2: the four images, 768 bytes.
template <class Fp> struct Record<Fp2<Fp>> {
    using F = Fp2<Fp>;
    static constexpr int LIMBS = 4 * Affine<F>::LIMBS;
    static constexpr bool ADDED_COMPACTLY = false;

    CUZKOPS_FN static void store(std::uint64_t* records, std::uint64_t index, const Affine<F>& p) {
        std::uint64_t* out = records + LIMBS * index;
        p.store(out);
        for (int image = 1; image < 4; image++)
            Endomorphism<F>::image(p, image).store(out + Affine<F>::LIMBS * image);
    }
    CUZKOPS_FN static const std::uint64_t* address(const std::uint64_t* records, std::uint32_t entry) {
        return records + static_cast<std::uint64_t>(Affine<F>::LIMBS) * (entry & ~NEGATIVE);
    }
    CUZKOPS_FN static Affine<F> load(const std::uint64_t* records, std::uint32_t entry) {
        const Affine<F> p = load_point<F>(address(records, entry));
        return {p.x, entry & NEGATIVE ? p.y.negated() : p.y};
    }
};

} // namespace cuzkops
