// What differs between g++ and nvcc: functions of the shared headers run on the host and on the device.
#pragma once

#ifdef __CUDACC__
#define CUZKOPS_FN __host__ __device__
#else
#define CUZKOPS_FN
#endif
