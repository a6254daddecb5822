// Tables of the multiples of one point, and multiples by them: see fixed_base.hpp.
#include "fixed_base.hpp"

#include <algorithm>
#include <vector>

#include "abi.hpp"
#include "pool.hpp"

namespace cuzkops {
namespace {

constexpr unsigned MAX_BITS = 16;
constexpr int BLOCK = 256; // points that share an inversion

template <class F> int fill_table(const std::uint64_t* point, unsigned bits, int threads, std::uint64_t* table) {
    if (threads < 1 || bits < 1 || bits > MAX_BITS) return BAD_ARGUMENT;
    constexpr std::size_t LIMBS = Affine<F>::LIMBS;
    const FixedBase<F> base{table, bits};
    const std::size_t row = base.row(), windows = base.windows();
    std::vector<std::uint64_t> firsts(windows * LIMBS); // 2^(bits k) * P
    Xyzz<F> power = Xyzz<F>::from(Affine<F>::load(point));
    for (std::size_t k = 0; k < windows; k++) {
        power.to_affine().store(&firsts[k * LIMBS]);
        for (unsigned i = 0; i < bits; i++) power = power.doubled();
    }
    over_tasks(windows, threads, [&](std::size_t k, int) {
        const Affine<F> first = Affine<F>::load(&firsts[k * LIMBS]);
        Xyzz<F> sum = Xyzz<F>::infinity();
        std::vector<Xyzz<F>> sums(std::min<std::size_t>(row, BLOCK));
        for (std::size_t begin = 0; begin < row; begin += BLOCK) {
            const int n = static_cast<int>(std::min<std::size_t>(row - begin, BLOCK));
            for (int i = 0; i < n; i++) {
                sum.add(first);
                sums[i] = sum;
            }
            normalise<F, BLOCK>(sums.data(), n, table + (k * row + begin) * LIMBS);
        }
    });
    return OK;
}

template <class F>
int multiples(const std::uint64_t* table, unsigned bits, const std::uint64_t* scalars, std::size_t n, int threads,
              std::uint64_t* out) {
    if (threads < 1 || bits < 1 || bits > MAX_BITS) return BAD_ARGUMENT;
    const FixedBase<F> base{table, bits};
    over_tasks((n + BLOCK - 1) / BLOCK, threads, [&](std::size_t block, int) {
        std::vector<Xyzz<F>> sums(BLOCK);
        base.template multiples<BLOCK>(scalars, block * BLOCK, n, sums.data(), out);
    });
    return OK;
}

} // namespace
} // namespace cuzkops

using namespace cuzkops;

// table: ceil(255 / bits) rows of 2^bits - 1 affine points, made from one affine point.
CUZKOPS_EXPORT int cuzkops_fixed_base_table_g1(int leaf, const std::uint64_t* point, unsigned bits, int threads,
                                               std::uint64_t* table) {
    return with_leaf(leaf, [&](auto chosen) { return fill_table<FpOf<decltype(chosen)>>(point, bits, threads, table); });
}
CUZKOPS_EXPORT int cuzkops_fixed_base_table_g2(int leaf, const std::uint64_t* point, unsigned bits, int threads,
                                               std::uint64_t* table) {
    return with_leaf(leaf, [&](auto chosen) { return fill_table<Fp2<FpOf<decltype(chosen)>>>(point, bits, threads, table); });
}

// out[i] = scalars[i] * P: scalars plain and below r, 4 limbs each; out is n affine points.
CUZKOPS_EXPORT int cuzkops_fixed_base_g1(int leaf, const std::uint64_t* table, unsigned bits, const std::uint64_t* scalars,
                                         std::size_t n, int threads, std::uint64_t* out) {
    return with_leaf(leaf, [&](auto chosen) { return multiples<FpOf<decltype(chosen)>>(table, bits, scalars, n, threads, out); });
}
CUZKOPS_EXPORT int cuzkops_fixed_base_g2(int leaf, const std::uint64_t* table, unsigned bits, const std::uint64_t* scalars,
                                         std::size_t n, int threads, std::uint64_t* out) {
    return with_leaf(leaf, [&](auto chosen) { return multiples<Fp2<FpOf<decltype(chosen)>>>(table, bits, scalars, n, threads, out); });
}
