// kernels/src/cuda/pass.cuh thread by thread on the host: what test_cuda_passes.py compiles and calls.
#include <vector>

#include "../../kernels/src/cuda/pass.cuh"

using namespace cuzkops;
using Fr = FrOf<Carry32>;

constexpr unsigned E = 2;

template <bool UP, Scaling SCALING> void run(const Pass<Fr, E>& pass) {
    const unsigned n_tiles = 1u << (pass.log2_n - pass.log2_tile), n_threads = 1u << (pass.log2_tile - E);
    std::vector<Fr> shared(std::size_t{1} << pass.log2_tile);
    for (unsigned tile = 0; tile < n_tiles; tile++)
        for (unsigned window = 0; window < pass.windows(); window++)
            for (unsigned thread = 0; thread < n_threads; thread++)
                pass_window<UP, SCALING>(pass, tile, thread, window, Tile<Fr>{shared.data()});
}

extern "C" void emulate_pass(int up, int scaling, const Fr* in, Fr* out, const Fr* factors, const Fr* scale,
                             unsigned shape, unsigned flags, unsigned log2_tile) {
    const Pass<Fr, E> pass{in, out, factors, scale, shape & 255, shape >> 8 & 255, shape >> 16 & 255,
                        log2_tile, flags >> 1 & 1, flags >> 2, flags & 1, shape >> 24};
    if (up && scaling == SCALED_INPUT) return run<true, SCALED_INPUT>(pass);
    if (up && scaling == SCALED_OUTPUT) return run<true, SCALED_OUTPUT>(pass);
    if (up) return run<true, UNSCALED>(pass);
    if (scaling == SCALED_INPUT) return run<false, SCALED_INPUT>(pass);
    if (scaling == SCALED_OUTPUT) return run<false, SCALED_OUTPUT>(pass);
    run<false, UNSCALED>(pass);
}

extern "C" void emulate_division(const Fr* in, Fr* out, std::size_t n, unsigned count) {
    for (std::size_t i = 0; i < n; i++) out[i] = divided_by_power_of_two(in[i], count);
}
