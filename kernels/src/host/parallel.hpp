// Threads of our own, with a count that the caller gives: no pool, no global state, nothing left behind.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace cuzkops {

// Calls body(worker) on `threads` threads, the caller's among them, and returns when all are done. An exception of a
// body, or of a thread that cannot be started, is thrown here after the others have ended.
template <class Body> void on_threads(int threads, Body body) {
    std::exception_ptr first;
    std::mutex lock;
    auto run = [&](int worker) {
        try {
            body(worker);
        } catch (...) {
            std::lock_guard<std::mutex> hold(lock);
            if (!first) first = std::current_exception();
        }
    };
    std::vector<std::thread> others;
    try {
        others.reserve(static_cast<std::size_t>(threads));
        for (int worker = 1; worker < threads; worker++) others.emplace_back(run, worker);
    } catch (...) {
        std::lock_guard<std::mutex> hold(lock);
        if (!first) first = std::current_exception();
    }
    run(0);
    for (std::thread& other : others) other.join();
    if (first) std::rethrow_exception(first);
}

// Calls body(begin, end) on consecutive parts of [0, n); on one thread where a part would be below `grain`.
template <class Body> void over_range(std::size_t n, int threads, std::size_t grain, Body body) {
    const std::size_t wanted = std::max<std::size_t>(1, n / std::max<std::size_t>(1, grain));
    const std::size_t parts = std::min<std::size_t>(static_cast<std::size_t>(threads), wanted);
    if (parts <= 1) {
        body(std::size_t{0}, n);
        return;
    }
    const std::size_t step = (n + parts - 1) / parts;
    on_threads(static_cast<int>(parts), [&](int worker) {
        const std::size_t begin = std::min(n, step * static_cast<std::size_t>(worker));
        body(begin, std::min(n, begin + step));
    });
}

// Calls body(task, worker) for each task of [0, n_tasks), in order of the counter, whoever is free first.
template <class Body> void over_tasks(std::size_t n_tasks, int threads, Body body) {
    std::atomic<std::size_t> next{0};
    const int workers = static_cast<int>(std::min<std::size_t>(static_cast<std::size_t>(threads), n_tasks));
    if (workers == 0) return;
    on_threads(workers, [&](int worker) {
        for (std::size_t task = next++; task < n_tasks; task = next++) body(task, worker);
    });
}

} // namespace cuzkops
