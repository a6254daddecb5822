// MSM in G1: 128-bit halves of scalars.
#include "curve.hpp"

using MsmField = cuzkops::FpOf<cuzkops::Carry32>;
#define MSM_THREADS 128
#define MSM_BLOCKS 3 // 168 registers
#define MSM_SLOT_THREADS 256
#define MSM_FINISH_THREADS CHAIN_THREADS // 5 warps: msm_chain.cuh

#include "msm_kernels.cuh"
