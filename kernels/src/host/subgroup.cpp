// Membership of curve points in the subgroups of order r: Scott, "A note on group membership tests for G1, G2 and GT on
// BLS pairing-friendly curves", https://eprint.iacr.org/2021/1130, and sums of points by buckets for many at once.
#include <atomic>
#include <vector>

#include "abi.hpp"
#include "curve.hpp"
#include "pool.hpp"

namespace cuzkops {
namespace {

constexpr std::uint64_t MINUS_Z = 0xd201000000010000ull; // the curve's parameter is z = -MINUS_Z

// [|z|] P: 63 doublings and 5 additions.
template <class F> Xyzz<F> times_minus_z(const Xyzz<F>& p) {
    Xyzz<F> out = p;
    for (int bit = 62; bit >= 0; bit--) {
        out = out.doubled();
        if (MINUS_Z >> bit & 1) out.add(p);
    }
    return out;
}

// Whether a XYZZ point is an affine one, without an inversion.
template <class F> bool same(const Xyzz<F>& p, const Affine<F>& q) {
    if (p.is_infinity() || q.is_infinity()) return p.is_infinity() && q.is_infinity();
    return p.x == q.x * p.zz && p.y == q.y * p.zzz;
}

// phi(P) = -z^2 P with phi(x, y) = (beta x, y): about 1200 products of Fp. constants: beta, Montgomery.
template <class M, class L> bool in_subgroup(const Affine<Field<M, L>>& p, const std::uint64_t* constants) {
    using Fp = Field<M, L>;
    const Affine<Fp> image = {p.x * Fp::load(constants), p.y.negated()};
    return same(times_minus_z(times_minus_z(Xyzz<Fp>::from(p))), image);
}

// psi(P) = z P with psi(x, y) = (c1 conj(x), c2 conj(y)): about 600 products of Fp2. constants: c1, c2, Montgomery.
template <class Fp> bool in_subgroup(const Affine<Fp2<Fp>>& p, const std::uint64_t* constants) {
    using F = Fp2<Fp>;
    const F x = p.x.conjugate(), y = p.y.conjugate();
    const Affine<F> image = {x * F::load(constants), (y * F::load(constants + F::LIMBS)).negated()};
    return same(times_minus_z(Xyzz<F>::from(p)), image);
}

template <class F>
int first_outside(const std::uint64_t* points, const std::uint64_t* constants, std::size_t n, int threads,
                  std::uint64_t* index) {
    if (threads < 1) return BAD_ARGUMENT;
    std::atomic<std::size_t> first{n};
    over_range(n, threads, 16, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; i++) {
            const Affine<F> p = Affine<F>::load(points + Affine<F>::LIMBS * i);
            if (p.is_infinity() || in_subgroup(p, constants)) continue;
            std::size_t known = first;
            while (i < known && !first.compare_exchange_weak(known, i)) {
            }
            return;
        }
    });
    *index = first;
    return OK;
}

// sums[b] = sum of the points whose bucket is b. Each thread adds its part of the points to buckets of its own.
template <class F>
int bucket_sums(const std::uint64_t* points, const std::uint16_t* buckets, std::size_t n, std::size_t n_buckets,
                int threads, std::uint64_t* sums) {
    if (threads < 1 || n_buckets < 1) return BAD_ARGUMENT;
    std::vector<std::vector<Xyzz<F>>> own(static_cast<std::size_t>(threads));
    const std::size_t step = (n + own.size() - 1) / own.size();
    over_tasks(own.size(), threads, [&](std::size_t w, int) {
        const std::size_t begin = std::min(n, step * w);
        own[w].assign(n_buckets, Xyzz<F>::infinity());
        for (std::size_t i = begin; i < std::min(n, begin + step); i++)
            own[w][buckets[i] % n_buckets].add(Affine<F>::load(points + Affine<F>::LIMBS * i));
    });
    over_range(n_buckets, threads, 16, [&](std::size_t begin, std::size_t end) {
        for (std::size_t b = begin; b < end; b++) {
            for (std::size_t w = 1; w < own.size(); w++) own[0][b].add(own[w][b]);
            own[0][b].to_affine().store(sums + Affine<F>::LIMBS * b);
        }
    });
    return OK;
}

} // namespace
} // namespace cuzkops

using namespace cuzkops;

// Writes the index of the first point that is outside the subgroup of order r, n where there is none. The points are on
// the curve. constants: what the endomorphism multiplies with, see above.
CUZKOPS_EXPORT int cuzkops_first_outside_g1(int leaf, const std::uint64_t* points, const std::uint64_t* constants, std::size_t n,
                                            int threads, std::uint64_t* index) {
    return with_leaf(leaf, [&](auto chosen) { return first_outside<FpOf<decltype(chosen)>>(points, constants, n, threads, index); });
}
CUZKOPS_EXPORT int cuzkops_first_outside_g2(int leaf, const std::uint64_t* points, const std::uint64_t* constants, std::size_t n,
                                            int threads, std::uint64_t* index) {
    return with_leaf(leaf, [&](auto chosen) { return first_outside<Fp2<FpOf<decltype(chosen)>>>(points, constants, n, threads, index); });
}

// sums: n_buckets affine points; buckets: one number a point, taken modulo n_buckets.
CUZKOPS_EXPORT int cuzkops_bucket_sums_g1(int leaf, const std::uint64_t* points, const std::uint16_t* buckets, std::size_t n,
                                          std::size_t n_buckets, int threads, std::uint64_t* sums) {
    return with_leaf(leaf, [&](auto chosen) { return bucket_sums<FpOf<decltype(chosen)>>(points, buckets, n, n_buckets, threads, sums); });
}
CUZKOPS_EXPORT int cuzkops_bucket_sums_g2(int leaf, const std::uint64_t* points, const std::uint16_t* buckets, std::size_t n,
                                          std::size_t n_buckets, int threads, std::uint64_t* sums) {
    return with_leaf(leaf, [&](auto chosen) { return bucket_sums<Fp2<FpOf<decltype(chosen)>>>(points, buckets, n, n_buckets, threads, sums); });
}
