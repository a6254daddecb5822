// Whether affine points are sound: canonical coordinates, on the curve.
#include <atomic>

#include "abi.hpp"
#include "curve.hpp"
#include "pool.hpp"

namespace cuzkops {
namespace {

// Index of the first row that is not a valid affine point; n where all are.
template <class F> std::size_t first_invalid(const std::uint64_t* points, std::size_t n, int threads) {
    std::atomic<std::size_t> first{n};
    over_range(n, threads, 1024, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; i++) {
            if (Affine<F>::load(points + Affine<F>::LIMBS * i).is_valid()) continue;
            std::size_t known = first;
            while (i < known && !first.compare_exchange_weak(known, i)) {
            }
            return;
        }
    });
    return first;
}

} // namespace
} // namespace cuzkops

using namespace cuzkops;

// Writes the index of the first row that is not canonical or not on the curve, n where there is none.
CUZKOPS_EXPORT int cuzkops_first_invalid_g1(int leaf, const std::uint64_t* points, std::size_t n, int threads,
                                            std::uint64_t* index) {
    return with_leaf(leaf, [&](auto chosen) -> int {
        *index = first_invalid<FpOf<decltype(chosen)>>(points, n, threads);
        return OK;
    });
}
CUZKOPS_EXPORT int cuzkops_first_invalid_g2(int leaf, const std::uint64_t* points, std::size_t n, int threads,
                                            std::uint64_t* index) {
    return with_leaf(leaf, [&](auto chosen) -> int {
        *index = first_invalid<Fp2<FpOf<decltype(chosen)>>>(points, n, threads);
        return OK;
    });
}
