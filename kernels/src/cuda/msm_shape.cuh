// What all stages of a multi-scalar multiplication agree on. Pippenger, "On the evaluation of powers and monomials", SIAM
// J. Comput. 9 (1980): scalars are split by an endomorphism (endomorphism.hpp) and recoded into signed digits of a window;
// each digit that is not 0 makes an entry; entries are sorted by bucket, each bucket is added up, and bucket d counts d
// times. The stages, in order: msm_digits.cuh, msm_sort.cuh, msm_affine.cuh, msm_accumulate.cuh, msm_reduce.cuh,
// msm_finish.cuh; msm_bases.cuh makes the records that entries name.
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

// The bucket of an entry, at or after bucket `from`: offsets[b] <= entry < offsets[b + 1].
CUZKOPS_FN inline std::uint32_t bucket_of(const std::uint32_t* offsets, std::uint32_t n_buckets, std::uint32_t entry,
                                          std::uint32_t from) {
    std::uint32_t low = from, high = n_buckets; // offsets[low] <= entry < offsets[high]
    while (high - low > 1) {
        const std::uint32_t middle = low + (high - low) / 2;
        if (offsets[middle] <= entry) low = middle;
        else high = middle;
    }
    return low;
}

// Limbs at an address that is a multiple of 16, which stay as they are during the kernel. step: from two limbs to the next
// two; more than 2 where the same limbs of neighbouring numbers lie side by side ("in planes").
template <int N> CUZKOPS_FN void load_limbs(std::uint64_t* out, const std::uint64_t* from, std::uint64_t step = 2) {
    CUZKOPS_UNROLL for (int j = 0; j < N; j += 2) {
        const std::uint64_t* const two = from + step * (j / 2);
#ifdef __CUDA_ARCH__
        const ulonglong2 pair = __ldg(reinterpret_cast<const ulonglong2*>(two));
        out[j] = pair.x;
        out[j + 1] = pair.y;
#else
        out[j] = two[0];
        out[j + 1] = two[1];
#endif
    }
}
template <int N> CUZKOPS_FN void store_limbs(std::uint64_t* to, const std::uint64_t* limbs, std::uint64_t step = 2) {
    CUZKOPS_UNROLL for (int j = 0; j < N; j += 2) {
        std::uint64_t* const two = to + step * (j / 2);
#ifdef __CUDA_ARCH__
        *reinterpret_cast<ulonglong2*>(two) = make_ulonglong2(limbs[j], limbs[j + 1]);
#else
        two[0] = limbs[j];
        two[1] = limbs[j + 1];
#endif
    }
}
template <class F> CUZKOPS_FN Affine<F> load_point(const std::uint64_t* from, std::uint64_t step = 2) {
    std::uint64_t limbs[Affine<F>::LIMBS];
    load_limbs<Affine<F>::LIMBS>(limbs, from, step);
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
    static constexpr std::uint32_t FIRST_IMAGES = 2; // from the name of a first image to that of the next one
    static constexpr int STRIDE = LIMBS;             // from the one to the other in memory
    static constexpr bool ADDED_COMPACTLY = true; // 5 % faster in G1, 13 % slower in G2: docs/decisions/0003-msm.md

    CUZKOPS_FN static void store(std::uint64_t* records, std::uint64_t index, const Affine<F>& p) {
        std::uint64_t* out = records + LIMBS * index;
        p.store(out);
        Endomorphism<F>::image(p, 1).x.store(out + 2 * F::LIMBS);
    }
    // Where the x of an entry is, if records are `stride` limbs apart.
    CUZKOPS_FN static const std::uint64_t* address_of_x(const std::uint64_t* points, std::uint32_t entry,
                                                        std::uint32_t stride) {
        const std::uint32_t selected = entry & ~NEGATIVE;
        return points + static_cast<std::uint64_t>(stride) * (selected / 2) + 2 * F::LIMBS * (selected % 2);
    }
    // How many limbs behind its x the y of an entry is, and whether it is the other y.
    CUZKOPS_FN static int from_x_to_y(std::uint32_t entry) { return entry % 2 ? -F::LIMBS : F::LIMBS; }
    CUZKOPS_FN static bool has_other_y(std::uint32_t entry) { return ((entry & NEGATIVE) != 0) != (entry % 2 != 0); }
    CUZKOPS_FN static Affine<F> load(const std::uint64_t* points, std::uint32_t entry, std::uint32_t stride = LIMBS,
                                     std::uint64_t step = 2) {
        const std::uint32_t image = entry % 2;
        const std::uint64_t* from = address_of_x(points, entry, stride) - F::LIMBS * image;
        const Affine<F> p = load_point<F>(from, step);
        const F y = image ? p.x : p.y;
        return {image ? p.y : p.x, has_other_y(entry) ? y.negated() : y};
    }
};

// G2: the four images, 768 bytes.
template <class Fp> struct Record<Fp2<Fp>> {
    using F = Fp2<Fp>;
    static constexpr int LIMBS = 4 * Affine<F>::LIMBS;
    static constexpr std::uint32_t FIRST_IMAGES = 1; // each image is named as if it were a point of its own
    static constexpr int STRIDE = Affine<F>::LIMBS;
    static constexpr bool ADDED_COMPACTLY = false;

    CUZKOPS_FN static void store(std::uint64_t* records, std::uint64_t index, const Affine<F>& p) {
        std::uint64_t* out = records + LIMBS * index;
        p.store(out);
        for (int image = 1; image < 4; image++)
            Endomorphism<F>::image(p, image).store(out + Affine<F>::LIMBS * image);
    }
    CUZKOPS_FN static const std::uint64_t* address_of_x(const std::uint64_t* points, std::uint32_t entry,
                                                        std::uint32_t stride) {
        return points + static_cast<std::uint64_t>(stride) * (entry & ~NEGATIVE);
    }
    CUZKOPS_FN static int from_x_to_y(std::uint32_t) { return F::LIMBS; }
    CUZKOPS_FN static bool has_other_y(std::uint32_t entry) { return (entry & NEGATIVE) != 0; }
    CUZKOPS_FN static Affine<F> load(const std::uint64_t* points, std::uint32_t entry, std::uint32_t stride = STRIDE,
                                     std::uint64_t step = 2) {
        const Affine<F> p = load_point<F>(address_of_x(points, entry, stride), step);
        return {p.x, has_other_y(entry) ? p.y.negated() : p.y};
    }
};

template <class F> CUZKOPS_FN F load_element(const std::uint64_t* from, std::uint64_t step = 2) {
    std::uint64_t limbs[F::LIMBS];
    load_limbs<F::LIMBS>(limbs, from, step);
    return F::load(limbs);
}

// Points that have names: entries of records where those are given, else places in a row of points, as names of first
// images. A row may be in planes: then neighbouring threads that take neighbouring points read and write without gaps.
template <class F> struct NamedPoints {
    std::uint64_t* points;
    const std::uint32_t* entries;
    std::uint64_t plane; // how many places a row has that is in planes, else 0

    CUZKOPS_FN std::uint32_t name(std::uint32_t place) const {
        return entries ? entries[place] : Record<F>::FIRST_IMAGES * place;
    }
    CUZKOPS_FN std::uint64_t step() const { return plane ? 2 * plane : 2; }
    CUZKOPS_FN std::uint32_t stride() const {
        if (plane) return 2;
        return static_cast<std::uint32_t>(entries ? Record<F>::STRIDE : Affine<F>::LIMBS);
    }
    CUZKOPS_FN const std::uint64_t* address_of_x(std::uint32_t name) const {
        return Record<F>::address_of_x(points, name, stride());
    }
    CUZKOPS_FN const std::uint64_t* address_of_y(std::uint32_t name) const { // see Record::has_other_y
        return address_of_x(name) + static_cast<std::int64_t>(step() / 2) * Record<F>::from_x_to_y(name);
    }
    CUZKOPS_FN Affine<F> point(std::uint32_t name) const { return Record<F>::load(points, name, stride(), step()); }
    CUZKOPS_FN void put(std::uint32_t place, const Affine<F>& p) const {
        std::uint64_t limbs[Affine<F>::LIMBS];
        p.store(limbs);
        store_limbs<Affine<F>::LIMBS>(points + static_cast<std::uint64_t>(stride()) * place, limbs, step());
    }
};

} // namespace cuzkops
