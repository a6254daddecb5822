// What g++ needs to compile the kernels of kernels/src/cuda/msm_*.cu and to run them on the host: a block is a set of
// fibers on one thread, which give way to each other where the device's threads wait for each other.
#pragma once
#include <ucontext.h>

#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#define __global__
#define __host__
#define __device__
#define __shared__ static
#define __launch_bounds__(...)
#define __noinline__ __attribute__((noinline))
#define __forceinline__ inline

struct Dim3 {
    unsigned x = 1, y = 1, z = 1;
};
inline Dim3 threadIdx, blockIdx, blockDim, gridDim;
inline std::uint64_t words[1 << 15]; // dynamic shared memory

namespace device_on_host {

constexpr std::size_t STACK_BYTES = 1 << 16, MOST_THREADS = 1024;
using Kernel = void (*)(std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t,
                        std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t,
                        std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t);

struct Barrier {
    unsigned waiting = 0, generation = 0;
};
struct Block {
    std::vector<ucontext_t> fibers;
    std::vector<char> stacks;
    std::vector<bool> is_done;
    ucontext_t scheduler;
    unsigned current = 0;
    std::map<std::uint64_t, Barrier> barriers;
    std::uint64_t exchange[MOST_THREADS];
    Kernel kernel;
    const std::uint64_t* arguments;
};
inline Block block;

inline void give_way() { swapcontext(&block.fibers[block.current], &block.scheduler); }

inline void wait_for(std::uint64_t key, unsigned count) {
    Barrier& barrier = block.barriers[key];
    const unsigned generation = barrier.generation;
    if (++barrier.waiting == count) {
        barrier.waiting = 0;
        barrier.generation++;
        return;
    }
    while (barrier.generation == generation) give_way();
}
inline void wait_for_lanes(unsigned lanes) {
    wait_for(std::uint64_t{1} << 63 | std::uint64_t{threadIdx.x / 32} << 32 | lanes, std::popcount(lanes));
}

inline void fiber() {
    const std::uint64_t* a = block.arguments;
    block.kernel(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15]);
    block.is_done[block.current] = true;
    give_way();
}

inline void run_block() {
    const unsigned n = blockDim.x;
    block.fibers.resize(n);
    block.stacks.resize(n * STACK_BYTES);
    block.is_done.assign(n, false);
    block.barriers.clear();
    for (unsigned i = 0; i < n; i++) {
        getcontext(&block.fibers[i]);
        block.fibers[i].uc_stack.ss_sp = block.stacks.data() + i * STACK_BYTES;
        block.fibers[i].uc_stack.ss_size = STACK_BYTES;
        block.fibers[i].uc_link = nullptr;
        makecontext(&block.fibers[i], fiber, 0);
    }
    for (unsigned n_done = 0; n_done < n;) {
        n_done = 0;
        for (unsigned i = 0; i < n; i++) {
            if (!block.is_done[i]) {
                block.current = i;
                threadIdx.x = i;
                swapcontext(&block.scheduler, &block.fibers[i]);
            }
            n_done += block.is_done[i];
        }
    }
}

} // namespace device_on_host

inline void __syncthreads() { device_on_host::wait_for(0, blockDim.x); }
inline void __syncwarp(unsigned lanes) { device_on_host::wait_for_lanes(lanes); }
inline std::uint32_t __shfl_up_sync(unsigned lanes, std::uint32_t value, unsigned step) {
    device_on_host::block.exchange[threadIdx.x] = value;
    device_on_host::wait_for_lanes(lanes);
    const unsigned from = threadIdx.x % 32 >= step ? threadIdx.x - step : threadIdx.x;
    const std::uint32_t found = static_cast<std::uint32_t>(device_on_host::block.exchange[from]);
    device_on_host::wait_for_lanes(lanes);
    return found;
}
inline std::uint32_t __ballot_sync(unsigned lanes, bool value) {
    device_on_host::block.exchange[threadIdx.x] = value;
    device_on_host::wait_for_lanes(lanes);
    std::uint32_t found = 0;
    for (unsigned lane = 0; lane < 32; lane++)
        if (lanes >> lane & 1) found |= static_cast<std::uint32_t>(device_on_host::block.exchange[threadIdx.x / 32 * 32 + lane]) << lane;
    device_on_host::wait_for_lanes(lanes);
    return found;
}
inline bool __any_sync(unsigned lanes, bool value) { return __ballot_sync(lanes, value) != 0; }
template <class T> T atomicAdd(T* to, T value) {
    const T before = *to;
    *to += value;
    return before;
}
template <class T> void atomicMin(T* to, std::uint64_t value) {
    if (value < *to) *to = static_cast<T>(value);
}

// Runs all blocks of a launch, one after the other; arguments: 16 words, more than any kernel takes.
extern "C" inline __attribute__((used)) void launch_on_host(device_on_host::Kernel kernel, const unsigned* grid, unsigned threads,
                                                            const std::uint64_t* arguments) {
    device_on_host::block.kernel = kernel;
    device_on_host::block.arguments = arguments;
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {threads, 1, 1};
    for (blockIdx.z = 0; blockIdx.z < grid[2]; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < grid[1]; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < grid[0]; blockIdx.x++) device_on_host::run_block();
}
