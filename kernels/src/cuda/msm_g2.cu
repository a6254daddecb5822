// MSM in G2: 64-bit quarters of scalars.
#define CUZKOPS_CALL_FP2
#include "fp2.hpp"

using MsmField = cuzkops::Fp2<cuzkops::FpOf<cuzkops::Carry32>>;
#define MSM_THREADS 128
#define MSM_BLOCKS 2 // 255 registers
#define MSM_SLOT_THREADS 256
#define MSM_FINISH_THREADS COMBINE_THREADS

#include "msm_kernels.cuh"
