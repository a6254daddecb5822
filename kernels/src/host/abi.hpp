// The C interface of libcuzkops_host.so: what kernels/host/library.py calls through ctypes. Raise CUZKOPS_ABI with
// each change of a signature or of a meaning.
#pragma once
#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <system_error>

#define CUZKOPS_EXPORT extern "C" __attribute__((visibility("default")))

namespace cuzkops {

inline constexpr int ABI = 1;

enum Status : int { OK = 0, OUT_OF_MEMORY = 1, NO_THREADS = 2, BAD_ARGUMENT = 3, FAULT = 4 };

// Runs the body of an exported function: no exception may cross into C.
template <class Body> int guarded(Body body) {
    try {
        return body();
    } catch (const std::bad_alloc&) {
        return OUT_OF_MEMORY;
    } catch (const std::system_error&) {
        return NO_THREADS;
    } catch (...) {
        return FAULT;
    }
}

} // namespace cuzkops
