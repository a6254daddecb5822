// Additions of points to buckets of an MSM in G2 in affine coordinates.
#include "fp2.hpp"

using MsmField = cuzkops::Fp2<cuzkops::FpOf<cuzkops::Carry32Loose>>;
#define AFFINE_THREADS 128
#define AFFINE_BLOCKS 2 // 255 registers

#include "msm_affine_kernels.cuh"
