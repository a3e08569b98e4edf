#include "base/thread_pool.h"

#include <pthread.h>
#include <signal.h>
#include <strings.h>

#include <array>
#include <atomic>
#include <cctype>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <limits>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/fork.h"

namespace addnorm {
inline namespace base {
namespace {

using Clock = std::chrono::steady_clock;

thread_local bool in_loop = false;

/// Hints to the processor that this thread spins.
inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

/// The limit of a thread's search for work, after which it sleeps: a time and a number of tries.
struct SpinLimit {
  Clock::duration time;
  std::uint64_t looks = std::numeric_limits<std::uint64_t>::max();
};

/// Reads a number with the suffix k, m, g or t for powers of 1000; anything else is infinite.
std::uint64_t spin_count(const char* text) {
  constexpr auto kInfinite = std::numeric_limits<std::uint64_t>::max();
  char* end = nullptr;
  std::uint64_t count = std::strtoull(text, &end, 10);
  if (end == text) return kInfinite;
  const std::string_view suffixes = "kmgt";
  const std::size_t power = suffixes.find(static_cast<char>(std::tolower(*end)));
  if (*end == '\0' || power == std::string_view::npos) return count;
  for (std::size_t i = 0; i <= power; ++i) count *= 1000;
  return count;
}

/// Reads the variables that GNU's OpenMP reads. Without them the limit is kDefault, whose effect is
/// measured in docs/kernels.md.
SpinLimit spin_limit_of_environment() {
  constexpr SpinLimit kDefault{std::chrono::microseconds(100)};
  constexpr SpinLimit kForever{std::chrono::hours(1)};
  if (const char* count = std::getenv("GOMP_SPINCOUNT")) return {kForever.time, spin_count(count)};
  if (const char* policy = std::getenv("OMP_WAIT_POLICY")) {
    if (::strcasecmp(policy, "passive") == 0) return {Clock::duration::zero(), 0};
    if (::strcasecmp(policy, "active") == 0) return kForever;
  }
  return kDefault;
}

/// Spins until done() or until the limit is reached; returns done().
template <typename Done>
bool spin_until(const SpinLimit& limit, const Done& done) {
  constexpr std::uint64_t kLooksPerClock = 64;
  Clock::time_point end{};
  for (std::uint64_t looks = 0; looks < limit.looks; ++looks) {
    if (done()) return true;
    pause();
    if (looks % kLooksPerClock != 0) continue;
    const Clock::time_point now = Clock::now();
    if (looks == 0) end = now + limit.time;
    if (now >= end) break;
  }
  return done();
}

/// A loop that threads run together. It lives on the stack of its caller.
class Work {
 public:
  Work(const SharedLoop& loop, std::size_t threads)
      : loop_(loop), n_shares_(std::clamp<std::size_t>(threads, 1, kMaxShares)) {
    for (std::size_t s = 0; s < n_shares_; ++s) {
      shares_[s].next.store(loop.count * s / n_shares_, std::memory_order_relaxed);
      shares_[s].end = loop.count * (s + 1) / n_shares_;
    }
  }

  /// Runs ranges until none is left, beginning with the share of thread number `member`.
  void run(std::size_t member) {
    const bool before = std::exchange(in_loop, true);
    for (std::size_t s = 0; s < n_shares_; ++s) run_share(shares_[(member + s) % n_shares_]);
    in_loop = before;
  }

  void rethrow() const {
    if (exception_) std::rethrow_exception(exception_);
  }

  // The pool's lock guards writes to these.
  std::size_t wanted = 0;                 ///< number of pool threads that may still join
  std::size_t n_joined = 1;               ///< number of threads that joined, with the caller
  std::atomic<std::size_t> n_members{0};  ///< number of pool threads that run ranges now
  bool caller_sleeps = false;
  Work* next = nullptr;

 private:
  static constexpr std::size_t kMaxShares = 32;  // beyond, several threads begin in one share

  /// The part of the loop that one thread begins with, on a cache line of its own.
  struct alignas(64) Share {
    std::atomic<std::size_t> next;
    std::size_t end;
  };

  void run_share(Share& share) {
    if (share.next.load(std::memory_order_relaxed) >= share.end) return;
    for (;;) {
      const std::size_t begin = share.next.fetch_add(loop_.chunk, std::memory_order_relaxed);
      if (begin >= share.end) return;
      try {
        loop_.body(loop_.context, begin, std::min(begin + loop_.chunk, share.end));
      } catch (...) {
        const std::lock_guard lock(exception_mutex_);
        if (!exception_) exception_ = std::current_exception();
      }
    }
  }

  const SharedLoop& loop_;
  const std::size_t n_shares_;
  std::array<Share, kMaxShares> shares_;
  std::mutex exception_mutex_;
  std::exception_ptr exception_;
};

class ThreadPool {
 public:
  /// Runs the work on the caller's thread and on `helpers` pool threads, if they join in time.
  void run(Work& work, std::size_t helpers) {
    begin(work, helpers);
    work.run(0);
    finish(work);
  }

  /// Ends the threads; later work runs on its caller's thread.
  void stop() {
    std::vector<std::thread> threads;
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
      threads.swap(threads_);
      posted_.fetch_add(1, std::memory_order_release);
    }
    work_posted_.notify_all();
    for (std::thread& thread : threads) {
      if (thread.get_id() == std::this_thread::get_id()) {
        thread.detach();  // the body of a loop called exit()
      } else {
        thread.join();
      }
    }
  }

 private:
  void begin(Work& work, std::size_t helpers) {
    std::size_t sleeping;
    {
      const std::lock_guard lock(mutex_);
      start_threads(helpers);
      work.wanted = std::min(helpers, threads_.size());
      if (work.wanted == 0) return;
      work.next = first_;
      first_ = &work;
      posted_.fetch_add(1, std::memory_order_release);
      sleeping = std::min(n_sleeping_, work.wanted);
    }
    for (; sleeping > 0; --sleeping) work_posted_.notify_one();
  }

  /// Lets no further thread join, and waits for the threads that joined.
  void finish(Work& work) {
    {
      const std::lock_guard lock(mutex_);
      for (Work** place = &first_; *place != nullptr; place = &(*place)->next) {
        if (*place != &work) continue;
        *place = work.next;
        break;
      }
    }
    const auto done = [&] { return work.n_members.load(std::memory_order_acquire) == 0; };
    if (spin_until(spin_limit_, done)) return;
    std::unique_lock lock(mutex_);
    work.caller_sleeps = true;
    work_left_.wait(lock, done);
  }

  void start_threads(std::size_t count) {
    if (stopped_ || threads_.size() >= count) return;
    // Signals of the process go to the application's own threads.
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      while (threads_.size() < count) threads_.emplace_back([this] { serve(); });
    } catch (const std::system_error&) {  // the system has no more threads: fewer do the work
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  /// Runs loops until the pool is stopped: the body of a pool thread.
  void serve() {
    std::unique_lock lock(mutex_);
    while (!stopped_) {
      if (Work* const work = join_first()) {
        const std::size_t member = work->n_joined++;
        lock.unlock();
        work->run(member);
        lock.lock();
        leave(*work);
        continue;
      }
      const std::uint64_t before = posted_.load(std::memory_order_relaxed);
      const auto is_new = [&] { return posted_.load(std::memory_order_acquire) != before; };
      lock.unlock();
      const bool found = spin_until(spin_limit_, is_new);
      lock.lock();
      if (found) continue;
      ++n_sleeping_;
      work_posted_.wait(lock, is_new);
      --n_sleeping_;
    }
  }

  /// Joins the first work that still wants threads and returns it; null if there is none.
  Work* join_first() const {
    Work* work = first_;
    while (work != nullptr && work->wanted == 0) work = work->next;
    if (work != nullptr) {
      --work->wanted;
      work->n_members.fetch_add(1, std::memory_order_relaxed);
    }
    return work;
  }

  /// Leaves the work, which may be destroyed as soon as its last member has left.
  void leave(Work& work) {
    const bool caller_sleeps = work.caller_sleeps;
    work.n_members.fetch_sub(1, std::memory_order_release);
    if (caller_sleeps) work_left_.notify_all();
  }

  const SpinLimit spin_limit_ = spin_limit_of_environment();
  std::mutex mutex_;
  std::condition_variable work_posted_, work_left_;
  std::atomic<std::uint64_t> posted_{0};  // changes with each new work; written under the lock
  // The lock guards the rest.
  Work* first_ = nullptr;
  std::vector<std::thread> threads_;
  std::size_t n_sleeping_ = 0;
  bool stopped_ = false;
};

/// The process's pool. It is never destroyed, so that destructors may still compute.
ThreadPool& pool() {
  static ThreadPool* const pool = new ThreadPool;
  return *pool;
}

/// Ends the pool's threads before the process ends or this library is unloaded.
struct PoolEnd {
  ~PoolEnd() {
    if (!is_forked()) pool().stop();
  }
};

}  // namespace

void run_on_pool(const SharedLoop& loop, std::size_t threads) {
  static const PoolEnd end;
  Work work(loop, threads);
  if (threads > 1) {
    pool().run(work, threads - 1);
  } else {
    work.run(0);
  }
  work.rethrow();
}

bool is_in_loop() {
  return in_loop;
}

}  // namespace base
}  // namespace addnorm
