// Threads that are kept between calls and shared by all of them.
#pragma once
#include <algorithm>
#include <cstddef>
#include <functional>

namespace cuzkops {

// Calls body(task, worker) for each task of [0, n_tasks), in order, whoever is free first; worker is a number below
// `threads` that no two bodies have at the same time. The calling thread works too, and the call returns when all is
// done. At most `threads` threads work on it. Over all calls that run at the same time no more threads work than there
// are CPUs (or than the largest `threads` asks for), besides the callers themselves: helpers leave a call between two
// tasks when another call begins. An exception of a body is thrown here, after the others have ended.
void over_tasks(std::size_t n_tasks, int threads, const std::function<void(std::size_t task, int worker)>& body);

// Calls body(begin, end) on consecutive parts of [0, n), none below `grain` but the last.
template <class Body> void over_range(std::size_t n, int threads, std::size_t grain, Body body) {
    const std::size_t most = threads > 1 ? 4 * static_cast<std::size_t>(threads) : 1; // several each, for the balance
    const std::size_t parts = std::clamp<std::size_t>(n / std::max<std::size_t>(1, grain), 1, most);
    const std::size_t step = (n + parts - 1) / parts;
    over_tasks(parts, threads, [&](std::size_t part, int) {
        const std::size_t begin = std::min(n, step * part);
        body(begin, std::min(n, begin + step));
    });
}

} // namespace cuzkops
