#include "pool.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace cuzkops {
namespace {

using Body = std::function<void(std::size_t, int)>;

// One call of over_tasks. Everything but `next` is under the pool's lock.
struct Job {
    const Body& body;
    const std::size_t n_tasks;
    const int threads;
    std::atomic<std::size_t> next{0};
    std::vector<int> free_workers; // numbers for helpers
    int helpers = 0;
    std::exception_ptr error;
    std::condition_variable idle; // helpers fell to 0

    bool has_tasks() const { return next.load(std::memory_order_relaxed) < n_tasks; }
};

int n_cpus() {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
    return std::max(1u, std::thread::hardware_concurrency());
}

class Pool {
public:
    void run(std::size_t n_tasks, int threads, const Body& body) {
        Job job{body, n_tasks, threads, {}, {}, 0, nullptr, {}};
        for (int worker = threads - 1; worker > 0; worker--) job.free_workers.push_back(worker);
        std::unique_lock<std::mutex> hold(lock_);
        const auto place = jobs_.insert(jobs_.end(), &job);
        running_++;
        set_limit();
        start_threads(static_cast<int>(std::min<std::size_t>(static_cast<std::size_t>(threads), n_tasks)) - 1);
        work_.notify_all();
        hold.unlock();
        work_on(job, 0, [] { return false; });
        hold.lock();
        running_--; // while it waits for its helpers another call may have the CPU
        jobs_.erase(place);
        set_limit();
        work_.notify_all();
        job.idle.wait(hold, [&] { return job.helpers == 0; });
        if (job.error) std::rethrow_exception(job.error);
    }

private:
    std::mutex lock_;
    std::condition_variable work_;
    std::list<Job*> jobs_;
    int n_threads_ = 0;
    std::atomic<int> running_{0}, limit_{1}; // read without the lock between two tasks

    void set_limit() {
        int limit = n_cpus();
        for (const Job* job : jobs_) limit = std::max(limit, job->threads);
        limit_ = limit;
    }

    // Where the system refuses a thread, those that exist do the work.
    void start_threads(int wanted) {
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &before); // signals go to the threads of the program
        try {
            for (; n_threads_ < wanted; n_threads_++) std::thread([this] { serve(); }).detach();
        } catch (const std::system_error&) {
        }
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }

    Job* job_to_help() {
        if (running_ >= limit_) return nullptr;
        for (Job* job : jobs_)
            if (!job->free_workers.empty() && job->has_tasks()) return job;
        return nullptr;
    }

    void serve() {
        std::unique_lock<std::mutex> hold(lock_);
        for (;;) {
            Job* job = nullptr;
            work_.wait(hold, [&] { return (job = job_to_help()) != nullptr; });
            const int worker = job->free_workers.back();
            job->free_workers.pop_back();
            job->helpers++;
            running_++;
            hold.unlock();
            work_on(*job, worker, [this] { return running_ > limit_; });
            hold.lock();
            running_--;
            job->free_workers.push_back(worker);
            if (--job->helpers == 0) job->idle.notify_all();
        }
    }

    template <class Leave> void work_on(Job& job, int worker, Leave leave) {
        try {
            while (!leave()) {
                const std::size_t task = job.next++;
                if (task >= job.n_tasks) return;
                job.body(task, worker);
            }
        } catch (...) {
            const std::lock_guard<std::mutex> hold(lock_);
            if (!job.error) job.error = std::current_exception();
            job.next = job.n_tasks;
        }
    }
};

// Never destroyed: its threads wait until the process ends. A forked child has none of them and gets a new pool.
Pool* pool = nullptr;
void new_pool() { pool = new Pool; }
std::once_flag once;

} // namespace

void over_tasks(std::size_t n_tasks, int threads, const std::function<void(std::size_t task, int worker)>& body) {
    if (threads <= 1 || n_tasks <= 1) {
        for (std::size_t task = 0; task < n_tasks; task++) body(task, 0);
        return;
    }
    std::call_once(once, [] {
        new_pool();
        pthread_atfork(nullptr, nullptr, new_pool);
    });
    pool->run(n_tasks, threads, body);
}

} // namespace cuzkops
