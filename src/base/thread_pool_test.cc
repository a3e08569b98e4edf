#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <latch>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "addnorm/error.h"
#include "base/parallel.h"

namespace addnorm {
namespace {

using std::chrono::milliseconds;

TEST(ThreadPool, RunsEveryIndexOnceForAnyNumberOfThreads) {
  for (const std::size_t threads : {1, 2, 3, 40}) {
    for (const std::size_t count : {0, 1, 2, 39, 1000}) {
      for (const std::size_t chunk : {1, 7, 2000}) {
        std::vector<std::atomic<int>> visits(count);
        run_ranges(count, chunk, threads, [&](std::size_t begin, std::size_t end) {
          EXPECT_LE(end - begin, chunk);
          for (std::size_t i = begin; i < end; ++i) ++visits[i];
        });
        for (const auto& n : visits) EXPECT_EQ(n, 1);
      }
    }
  }
}

TEST(ThreadPool, RunsOnSeveralThreads) {
  std::latch both(2);
  std::array<std::thread::id, 2> ids;
  run_ranges(2, 1, 2, [&](std::size_t begin, std::size_t) {
    ids[begin] = std::this_thread::get_id();
    both.arrive_and_wait();
  });
  EXPECT_NE(ids[0], ids[1]);
}

TEST(ThreadPool, ALoopEndsWhileAllThreadsOfThePoolAreHeld) {
  constexpr std::size_t kThreads = 64;  // more than other tests start
  std::latch held(kThreads), release(1);
  std::thread other([&] {
    run_ranges(kThreads, 1, kThreads, [&](std::size_t, std::size_t) {
      held.count_down();
      release.wait();
    });
  });
  held.wait();
  const std::thread::id caller = std::this_thread::get_id();
  std::size_t visits = 0;
  run_ranges(3, 1, 3, [&](std::size_t, std::size_t) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    ++visits;
  });
  EXPECT_EQ(visits, 3U);
  release.count_down();
  other.join();
}

TEST(ThreadPool, TakesRangesFromAThreadThatIsHeld) {
  std::latch rest_is_done(7);
  run_ranges(8, 1, 2, [&](std::size_t begin, std::size_t) {
    if (begin == 4) {
      rest_is_done.wait();  // the first range of the second share waits for all others
    } else {
      rest_is_done.count_down();
    }
  });
}

TEST(ThreadPool, ALoopInsideALoopStaysOnItsThread) {
  run_ranges(4, 1, 2, [&](std::size_t, std::size_t) {
    const std::thread::id outer = std::this_thread::get_id();
    EXPECT_EQ(thread_count(), 1U);
    parallel_for(100, 1, [&](std::size_t) { EXPECT_EQ(std::this_thread::get_id(), outer); });
    parallel_jobs(100, [&](std::size_t) { EXPECT_EQ(std::this_thread::get_id(), outer); });
    EXPECT_EQ(thread_count(), 1U);
  });
}

TEST(ThreadPool, KeepsTheFirstExceptionAndRunsTheRest) {
  std::atomic<int> visits{0};
  const auto run = [&] {
    run_ranges(100, 1, 2, [&](std::size_t begin, std::size_t) {
      ++visits;
      if (begin % 10 == 7) throw Error("seven");
    });
  };
  EXPECT_THROW(run(), Error);
  EXPECT_EQ(visits, 100);
  parallel_for(2, 1, [&](std::size_t) { ++visits; });
  EXPECT_EQ(visits, 102) << "the pool works on after an exception";
}

TEST(ThreadPool, ServesManyCallersAtOnce) {
  std::vector<std::thread> callers;
  std::vector<std::size_t> sums(8);
  for (std::size_t c = 0; c < sums.size(); ++c) {
    callers.emplace_back([&, c] {
      for (int repeat = 0; repeat < 500; ++repeat) {
        std::vector<std::size_t> values(50);
        run_ranges(values.size(), 1 + c, 1 + c % 4, [&](std::size_t begin, std::size_t end) {
          for (std::size_t i = begin; i < end; ++i) values[i] = i;
        });
        sums[c] += std::accumulate(values.begin(), values.end(), std::size_t{0});
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sums, std::vector<std::size_t>(8, std::size_t{500} * 49 * 50 / 2));
}

/// Returns the seconds of processor time that the process takes for short loops with pauses of two
/// milliseconds between them, 0.4 s in all.
double processor_time_of_sparse_loops() {
  const auto now = [] {
    timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double begin = now();
  for (int i = 0; i < 200; ++i) {
    run_ranges(2, 1, 2, [](std::size_t, std::size_t) {});
    std::this_thread::sleep_for(milliseconds(2));
  }
  return now() - begin;
}

/// Returns the same measurement from a separate process with a variable of the environment.
double processor_time_with(const std::string& variable) {
  std::array<char, 4096> self{};
  EXPECT_GT(::readlink("/proc/self/exe", self.data(), self.size() - 1), 0);
  const std::string command = "env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT ADDNORM_TEST_PRINTS=1 " +
                              variable + " " + self.data() +
                              " --gtest_filter=ThreadPool.SleepsSoonAfterALoop";
  FILE* const pipe = ::popen(command.c_str(), "r");
  double seconds = -1;
  for (std::array<char, 256> line{}; std::fgets(line.data(), line.size(), pipe) != nullptr;) {
    std::sscanf(line.data(), "processor time %lf", &seconds);
  }
  EXPECT_EQ(::pclose(pipe), 0);
  return seconds;
}

TEST(ThreadPool, SleepsSoonAfterALoop) {
  if (std::getenv("ADDNORM_TEST_PRINTS") != nullptr) {  // the separate process
    std::printf("processor time %f\n", processor_time_of_sparse_loops());
    return;
  }
  EXPECT_LT(processor_time_with("A=1"), 0.15);
}

TEST(ThreadPool, SpinsAsLongAsTheEnvironmentSays) {
  EXPECT_LT(processor_time_with("OMP_WAIT_POLICY=Passive"), 0.15);
  EXPECT_LT(processor_time_with("GOMP_SPINCOUNT=10"), 0.15);
  EXPECT_LT(processor_time_with("OMP_WAIT_POLICY=active GOMP_SPINCOUNT=0"), 0.15);
  // Other processes may use the core, so only a thread that never sleeps is certain to exceed this.
  EXPECT_GT(processor_time_with("OMP_WAIT_POLICY=ACTIVE"), 0.05);
  EXPECT_GT(processor_time_with("GOMP_SPINCOUNT=1g"), 0.05);
}

}  // namespace
}  // namespace addnorm
