// How fast the arithmetic is in registers alone: the ceilings of what the other stages can reach. Each thread repeats an
// operation on numbers that depend on the result before.
#include "curve.hpp"

using namespace cuzkops;

namespace {
using Fr = FrOf<Carry32>;
using Fp = FpOf<Carry32>;

// io: two elements or points a thread; the first one is overwritten.
template <class T, class Step> __device__ void repeat(std::uint64_t* io, std::uint32_t times, Step step) {
    std::uint64_t* mine = io + (static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 2 * T::LIMBS;
    T a = T::load(mine);
    const T b = T::load(mine + T::LIMBS);
    for (std::uint32_t i = 0; i < times; i++) a = step(a, b);
    a.store(mine);
}

// As msm_accumulate.cuh adds points to buckets.
template <class F> __device__ void repeat_additions(std::uint64_t* io, std::uint32_t times) {
    std::uint64_t* mine =
        io + (static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 2 * Affine<F>::LIMBS;
    Xyzz<F> sum = Xyzz<F>::from(Affine<F>::load(mine));
    const Affine<F> p = Affine<F>::load(mine + Affine<F>::LIMBS);
    for (std::uint32_t i = 0; i < times; i++) {
        if constexpr (F::LIMBS == 6) sum.add_compactly(p);
        else sum.add(p);
    }
    sum.x.store(mine);
    sum.y.store(mine + F::LIMBS);
    sum.zz.store(mine + 2 * F::LIMBS);
    sum.zzz.store(mine + 3 * F::LIMBS);
}
} // namespace

#define CUZKOPS_RATE(name, threads, blocks)                                                                              \
    extern "C" __global__ void __launch_bounds__(threads, blocks) cuzkops_rate_##name(std::uint64_t* io, std::uint32_t times)

CUZKOPS_RATE(fr_multiply, 128, 8) {
    repeat<Fr>(io, times, [](const Fr& a, const Fr& b) { return a * b; });
}
CUZKOPS_RATE(fp_multiply, 128, 6) {
    repeat<Fp>(io, times, [](const Fp& a, const Fp& b) { return a * b; });
}
CUZKOPS_RATE(fp_square, 128, 6) {
    repeat<Fp>(io, times, [](const Fp& a, const Fp&) { return a.square(); });
}
CUZKOPS_RATE(fp_difference_of_products, 128, 6) {
    repeat<Fp>(io, times, [](const Fp& a, const Fp& b) { return Fp::difference_of_products(a, b, b, a); });
}
CUZKOPS_RATE(fp2_multiply, 128, 3) {
    repeat<Fp2<Fp>>(io, times, [](const Fp2<Fp>& a, const Fp2<Fp>& b) { return a * b; });
}
CUZKOPS_RATE(g1_add, 128, 3) { repeat_additions<FpOf<Carry32Loose>>(io, times); }
CUZKOPS_RATE(g2_add, 128, 2) { repeat_additions<Fp2<FpOf<Carry32Loose>>>(io, times); }
