// MSM in G1: 128-bit halves of scalars.
#include "curve.hpp"

using MsmField = cuzkops::FpOf<cuzkops::Carry32>;
#define MSM_THREADS 128
#define MSM_BLOCKS 3 // 168 registers

#include "msm_kernels.cuh"
