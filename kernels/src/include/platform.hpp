// What differs between g++ and nvcc: functions of the shared headers run on the host and on the device.
#pragma once

#ifdef __CUDACC__
#define CUZKOPS_FN __host__ __device__
#else
#define CUZKOPS_FN
#endif

// The big functions: inlined on the device, where an argument by reference would live in memory instead of registers;
// called on the host, where a call costs little beside them. Loops over limbs must be unrolled on the device, because
// registers cannot be indexed; g++ decides for itself. ROLLED keeps a loop that is there to make the code smaller; ROLLED_IF
// does where a constant is true.
//
// RARE: never inlined, for branches that are hardly ever taken; arguments go by value, so that only the copies need memory.
#ifdef __CUDACC__
#define CUZKOPS_RARE_FN __host__ __device__ __noinline__
#else
#define CUZKOPS_RARE_FN __attribute__((noinline))
#endif
#ifdef __CUDA_ARCH__
#define CUZKOPS_BIG_FN __host__ __device__ __forceinline__
#define CUZKOPS_UNROLL _Pragma("unroll")
#define CUZKOPS_ROLLED _Pragma("unroll 1")
#define CUZKOPS_PRAGMA(words) _Pragma(#words)
#define CUZKOPS_ROLLED_IF(constant) CUZKOPS_PRAGMA(unroll ((constant) ? 1 : 4))
#elif defined(__CUDACC__)
#define CUZKOPS_BIG_FN __host__ __device__
#define CUZKOPS_UNROLL
#define CUZKOPS_ROLLED
#define CUZKOPS_ROLLED_IF(constant)
#else
#define CUZKOPS_BIG_FN __attribute__((noinline))
#define CUZKOPS_UNROLL
#define CUZKOPS_ROLLED
#define CUZKOPS_ROLLED_IF(constant)
#endif
