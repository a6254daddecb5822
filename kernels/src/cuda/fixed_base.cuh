// A thread makes the multiples of one point by a few scalars, which share an inversion: see fixed_base.hpp.
#pragma once
#include "fixed_base.hpp"

inline constexpr int MULTIPLES_EACH = 4; // kernels/cuda/fixed_base.py has the same number

template <class F>
__device__ void multiples(const std::uint64_t* table, unsigned bits, const std::uint64_t* scalars, std::uint64_t n,
                          std::uint64_t* out) {
    const std::uint64_t begin = (static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * MULTIPLES_EACH;
    cuzkops::Xyzz<F> sums[MULTIPLES_EACH];
    const cuzkops::FixedBase<F> base{table, bits};
    if (begin < n) base.template multiples<MULTIPLES_EACH>(scalars, begin, n, sums, out);
}
