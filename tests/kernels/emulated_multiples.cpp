// kernels/src/cuda/fixed_base.cuh thread by thread on the host, with the device's arithmetic.
#include <vector>

#define __device__
struct Place {
    unsigned x;
};
static Place blockIdx, blockDim, threadIdx;
#include "../../kernels/src/cuda/fixed_base.cuh"

using namespace cuzkops;

template <class F>
static void emulate(const std::uint64_t* table, unsigned bits, const std::uint64_t* scalars, std::uint64_t n,
                    std::uint64_t* out, unsigned n_blocks, unsigned n_threads) {
    blockDim.x = n_threads;
    for (blockIdx.x = 0; blockIdx.x < n_blocks; blockIdx.x++)
        for (threadIdx.x = 0; threadIdx.x < n_threads; threadIdx.x++) multiples<F>(table, bits, scalars, n, out);
}

extern "C" void emulate_g1(const std::uint64_t* table, unsigned bits, const std::uint64_t* scalars, std::uint64_t n,
                           std::uint64_t* out, unsigned n_blocks, unsigned n_threads) {
    emulate<FpOf<Carry32>>(table, bits, scalars, n, out, n_blocks, n_threads);
}
extern "C" void emulate_g2(const std::uint64_t* table, unsigned bits, const std::uint64_t* scalars, std::uint64_t n,
                           std::uint64_t* out, unsigned n_blocks, unsigned n_threads) {
    emulate<Fp2<FpOf<Carry32>>>(table, bits, scalars, n, out, n_blocks, n_threads);
}
