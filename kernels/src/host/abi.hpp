// The C interface of libcuzkops_host.so: what kernels/host/library.py calls through ctypes. Raise CUZKOPS_ABI with
// each change of a signature or of a meaning.
#pragma once
#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>

#include "field.hpp"

#define CUZKOPS_EXPORT extern "C" __attribute__((visibility("default")))

namespace cuzkops {

inline constexpr int ABI = 2;

enum Status : int { OK = 0, OUT_OF_MEMORY = 1, BAD_ARGUMENT = 3, FAULT = 4 };

// The arithmetic below the fields. Every function computes the same with each; the caller says which.
enum LeafNumber : int { PORTABLE64 = 0, ADX64 = 1, CARRY32 = 2, CARRY32_LOOSE = 3 };

// Runs the body of an exported function: no exception may cross into C.
template <class Body> int guarded(Body body) {
    try {
        return body();
    } catch (const std::bad_alloc&) {
        return OUT_OF_MEMORY;
    } catch (...) {
        return FAULT;
    }
}

// Calls body with an object of the leaf's type. CARRY32 and CARRY32_LOOSE are a device's leaves: only the tests of arithmetic.cpp take them.
template <class Body> int with_leaf(int leaf, Body body) {
    return guarded([&]() -> int {
        if (leaf == PORTABLE64) return body(Portable64{});
#ifdef CUZKOPS_HAVE_ADX64
        if (leaf == ADX64) return body(Adx64{});
#endif
        return BAD_ARGUMENT;
    });
}

} // namespace cuzkops
