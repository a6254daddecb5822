// Additions of points to buckets of an MSM in G1 in affine coordinates.
#include "fp2.hpp"

using MsmField = cuzkops::FpOf<cuzkops::Carry32Loose>;
#define AFFINE_THREADS 128
#define AFFINE_BLOCKS 4 // 128 registers

#include "msm_affine_kernels.cuh"
