// Multiples of one point of G2.
#define CUZKOPS_CALL_FP2
#include "fixed_base.cuh"

extern "C" __global__ void __launch_bounds__(128, 2)
    cuzkops_multiples(const std::uint64_t* table, unsigned bits, const std::uint64_t* scalars, std::uint64_t n,
                      std::uint64_t* out) {
    multiples<cuzkops::Fp2<cuzkops::FpOf<cuzkops::Carry32>>>(table, bits, scalars, n, out);
}
