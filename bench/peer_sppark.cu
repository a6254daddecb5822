// An adapter to supranational/sppark for bench/device.py: its transforms and MSMs on data that are on the device, each
// timed by CUDA events or by the clock around the whole call. Built beside the project, never shipped:
//   g++ -D__ADX__ -fPIC -c BLST/build/assembly.S -o assembly.o
//   nvcc -O3 -std=c++17 -arch=sm_90 -shared -Xcompiler -fPIC -DFEATURE_BLS12_381 -D__ADX__ -I SPPARK -I BLST/src
//     bench/peer_sppark.cu SPPARK/util/all_gpus.cpp BLST/src/server.c assembly.o -o peer.so
#include <chrono>
#include <cuda.h>

#include <ff/bls12-381-fp2.hpp>
#include <ntt/ntt.cuh>

#include <ec/jacobian_t.hpp>
#include <ec/xyzz_t.hpp>

typedef jacobian_t<fp_t> point_t;
typedef xyzz_t<fp_t> bucket_t;
typedef bucket_t::affine_t affine_t;
typedef fr_t scalar_t;

#include <msm/pippenger.cuh>

// The header makes the kernels of G1; these are those of G2.
typedef xyzz_t<fp2_t> bucket2_t;
typedef bucket2_t::affine_t affine2_t;
template __global__ void accumulate<bucket2_t, affine2_t::mem_t>(bucket2_t::mem_t*, uint32_t, uint32_t, affine2_t::mem_t*,
                                                                 const vec2d_t<uint32_t>, const vec2d_t<uint32_t>, uint32_t);
template __global__ void batch_addition<bucket2_t>(bucket2_t::mem_t*, const affine2_t::mem_t*, size_t, const uint32_t*,
                                                   const uint32_t&);
template __global__ void integrate<bucket2_t>(bucket2_t::mem_t*, uint32_t, uint32_t, uint32_t);

#ifndef __CUDA_ARCH__
// order: 0 NN, 1 NR, 2 RN. Transforms 2^log2_n elements in place and says how many milliseconds each of the rounds took.
// Before each the device clears lead_bytes at lead, so that the launches do not wait for this thread.
extern "C" int peer_ntt(void* values, unsigned log2_n, int order, int inverse, int coset, void* lead, size_t lead_bytes,
                        int rounds, float* ms) {
    const NTT::InputOutputOrder orders[] = {NTT::InputOutputOrder::NN, NTT::InputOutputOrder::NR,
                                            NTT::InputOutputOrder::RN};
    cudaEvent_t start, end;
    cudaEventCreate(&start);
    cudaEventCreate(&end);
    try {
        auto& gpu = select_gpu(0);
        stream_t& stream = gpu;
        for (int i = 0; i < rounds; i++) {
            cudaMemsetAsync(lead, 0, lead_bytes, stream);
            cudaEventRecord(start, stream);
            NTT::Base_dev_ptr(stream, static_cast<fr_t*>(values), log2_n, orders[order],
                              inverse ? NTT::Direction::inverse : NTT::Direction::forward,
                              coset ? NTT::Type::coset : NTT::Type::standard);
            cudaEventRecord(end, stream);
            cudaEventSynchronize(end);
            cudaEventElapsedTime(ms + i, start, end);
        }
    } catch (const cuda_error& error) {
        return error.code();
    }
    return cudaGetLastError();
}

// Points and plain scalars on the device; out: three Jacobian coordinates on the host.
template <class Bucket, class Point>
static int peer_msm(const void* points, const void* scalars, size_t n, int rounds, float* ms, void* out) {
    typedef typename Bucket::affine_t Base;
    try {
        // The library takes these for memory of the device, and does not write to it.
        dev_ptr_t<Base> bases{static_cast<Base*>(const_cast<void*>(points))};
        dev_ptr_t<scalar_t> numbers{static_cast<scalar_t*>(const_cast<void*>(scalars))};
        for (int i = 0; i < rounds; i++) {
            const auto start = std::chrono::steady_clock::now();
            msm_t<Bucket, Point, Base, scalar_t> msm{nullptr, n};
            const RustError error = msm.invoke(*static_cast<Point*>(out), bases, n, numbers, false);
            if (error.code) return error.code;
            ms[i] = std::chrono::duration<float, std::milli>(std::chrono::steady_clock::now() - start).count();
        }
    } catch (const cuda_error& error) {
        return error.code();
    }
    return 0;
}

extern "C" int peer_msm_g1(const void* points, const void* scalars, size_t n, int rounds, float* ms, void* out) {
    return peer_msm<bucket_t, point_t>(points, scalars, n, rounds, ms, out);
}
extern "C" int peer_msm_g2(const void* points, const void* scalars, size_t n, int rounds, float* ms, void* out) {
    return peer_msm<bucket2_t, jacobian_t<fp2_t>>(points, scalars, n, rounds, ms, out);
}
#endif
