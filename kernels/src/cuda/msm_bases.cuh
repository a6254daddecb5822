// Records of bases (msm_shape.cuh), tables of their multiples, and the check of points.
#pragma once
#include "msm_shape.cuh"

namespace cuzkops {

// Records of all tables: table t holds 2^(spacing * t) times the points.
template <class F>
CUZKOPS_FN void make_records(const std::uint64_t* points, std::uint64_t n_points, std::uint32_t n_tables,
                             std::uint32_t spacing, std::uint64_t* records, std::uint64_t i) {
    if (i >= n_points) return;
    Affine<F> p = load_point<F>(points + Affine<F>::LIMBS * i);
    Record<F>::store(records, i, p);
    for (std::uint32_t table = 1; table < n_tables; table++) {
        Xyzz<F> multiple = Xyzz<F>::from(p);
        for (std::uint32_t k = 0; k < spacing; k++) multiple = Xyzz<F>::doubled_apart(multiple);
        p = multiple.to_affine();
        Record<F>::store(records, table * n_points + i, p);
    }
}

} // namespace cuzkops
