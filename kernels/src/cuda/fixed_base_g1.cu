// Multiples of one point of G1.
#include "fixed_base.cuh"

extern "C" __global__ void __launch_bounds__(128, 3)
    cuzkops_multiples(const std::uint64_t* table, unsigned bits, const std::uint64_t* scalars, std::uint64_t n,
                      std::uint64_t* out) {
    multiples<cuzkops::FpOf<cuzkops::Carry32>>(table, bits, scalars, n, out);
}
