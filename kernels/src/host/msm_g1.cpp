// MSM in G1: a file of its own, so that both groups compile at the same time.
#include "msm.hpp"

using namespace cuzkops;

// sum scalars[i] * points[i]: points affine, Montgomery, in the subgroup of order r; scalars plain, 4 limbs each, any
// value; out is one affine point.
CUZKOPS_EXPORT int cuzkops_msm_g1(int leaf, const std::uint64_t* points, const std::uint64_t* scalars, std::size_t n,
                                  int threads, std::uint64_t* out) {
    return with_leaf(leaf, [&](auto chosen) { return msm<FpOf<decltype(chosen)>>(points, scalars, n, threads, out); });
}
