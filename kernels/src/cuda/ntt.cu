// Transforms: one kernel for each direction and place of the scaling, all bodies in pass.cuh.
#include "pass.cuh"

using namespace cuzkops;
using Fr = FrOf<Carry32>;

namespace {

constexpr unsigned E = 2;           // log2 of a thread's elements: kernels/cuda/passes.py has the same number
constexpr unsigned THREADS = 128;   // most threads of a block
constexpr unsigned BLOCKS = 6;      // of a multiprocessor: as many as 80 registers a thread allow

template <bool UP, Scaling SCALING> __device__ void run_pass(const Pass<Fr, E>& pass, unsigned tile) {
    extern __shared__ ulonglong2 words[];
    const Tile<Fr> shared{words, pass.log2_tile};
#pragma unroll 1
    for (unsigned window = 0; window < pass.windows(); window++) {
        if (window) __syncthreads();
        pass_window<UP, SCALING>(pass, tile, threadIdx.x, window, shared);
    }
}

// shape: log2_n, above, layers and halvings, a byte each; flags: 1 permuted, 2 odd points, 4 last pass.
__device__ Pass<Fr, E> unpacked(const Fr* in, Fr* out, const Fr* factors, const Fr* scale, unsigned shape, unsigned flags) {
    const unsigned log2_n = shape & 255, log2_tile = 31 - __clz(blockDim.x) + E;
    const std::size_t vector = static_cast<std::size_t>(blockIdx.y) << log2_n;
    Pass<Fr, E> pass;
    pass.in = in + vector;
    pass.out = out + vector;
    pass.factors = factors;
    pass.scale = scale;
    pass.log2_n = log2_n;
    pass.above = shape >> 8 & 255;
    pass.layers = shape >> 16 & 255;
    pass.log2_tile = log2_tile;
    pass.prefix = flags >> 1 & 1;
    pass.is_end = flags >> 2 & 1;
    pass.permuted = flags & 1;
    pass.halvings = shape >> 24;
    return pass;
}

} // namespace

// Grid: tiles of 2^E blockDim.x elements from first_tile on, by vectors that stand one after the other.
#define CUZKOPS_PASS(NAME, UP, SCALING)                                                                               \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                                     \
        NAME(const Fr* in, Fr* out, const Fr* factors, const Fr* scale, unsigned shape, unsigned flags,               \
             unsigned first_tile) {                                                                                   \
        run_pass<UP, SCALING>(unpacked(in, out, factors, scale, shape, flags), first_tile + blockIdx.x);              \
    }

CUZKOPS_PASS(cuzkops_down, false, UNSCALED)
CUZKOPS_PASS(cuzkops_down_scaled_input, false, SCALED_INPUT)
CUZKOPS_PASS(cuzkops_down_scaled_output, false, SCALED_OUTPUT)
CUZKOPS_PASS(cuzkops_up, true, UNSCALED)
CUZKOPS_PASS(cuzkops_up_scaled_input, true, SCALED_INPUT)
CUZKOPS_PASS(cuzkops_up_scaled_output, true, SCALED_OUTPUT)
