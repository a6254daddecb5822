// MSM in G2: 64-bit quarters of scalars.
#include "fp2.hpp"

using MsmField = cuzkops::Fp2<cuzkops::FpOf<cuzkops::Carry32>>;
#define MSM_THREADS 128
#define MSM_BLOCKS 2 // 255 registers
#define MSM_FULL_BLOCKS 2

#include "msm_kernels.cuh"
