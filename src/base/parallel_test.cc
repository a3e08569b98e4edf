#include "base/parallel.h"

#include <gmock/gmock.h>
#include <omp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <limits>
#include <set>
#include <vector>

#include "addnorm/error.h"
#include "addnorm/matrix.h"

namespace addnorm {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Truly;

TEST(Parallel, VisitsEveryIndexOnce) {
  std::vector<int> visits(1000);
  parallel_for(visits.size(), 1, [&](std::size_t i) { ++visits[i]; });
  parallel_jobs(visits.size(), [&](std::size_t i) { ++visits[i]; });
  EXPECT_EQ(visits, std::vector<int>(1000, 2));
}

/// Returns where ranges begin.
std::set<std::size_t> begins(std::size_t count, std::size_t step, std::size_t threads) {
  const ThreadCount given(threads);
  std::vector<std::size_t> begun(count, count);
  parallel_ranges(count, 1, step, [&](std::size_t begin, std::size_t) { begun[begin] = begin; });
  std::erase(begun, count);
  return {begun.begin(), begun.end()};
}

TEST(Parallel, RangesBeginAtSteps) {
  for (const std::size_t count : {64, 100, 1000, 4096}) {
    for (const std::size_t step : {1, 8, 16}) {
      for (const std::size_t threads : {2, 3, 4}) {
        EXPECT_THAT(begins(count, step, threads),
                    Each(Truly([&](auto b) { return b % step == 0; })))
            << count << " by " << step << " on " << threads;
      }
    }
  }
}

TEST(Parallel, EveryThreadHasARangeWhereThereAreFewSteps) {
  EXPECT_THAT(begins(8, 8, 2), ElementsAre(0, 4));
  EXPECT_THAT(begins(9, 8, 4), ElementsAre(0, 2, 4, 6));
}

TEST(Parallel, LimitsTheNumberOfThreads) {
  for (const std::size_t wanted : {std::size_t{1025}, std::size_t{100'000}, std::size_t{1} << 31,
                                   std::numeric_limits<std::size_t>::max()}) {
    const ThreadCount count(wanted);
    EXPECT_EQ(thread_count(), kMostThreads);
    std::atomic<std::size_t> visited = 0;
    parallel_ranges(100, 1, 1, [&](std::size_t begin, std::size_t end) { visited += end - begin; });
    EXPECT_EQ(visited, 100u);
  }
}

TEST(Parallel, HandsAnExceptionToTheCaller) {
  auto fail = [](std::size_t i) {
    if (i % 10 == 7) throw Error("seven");
  };
  EXPECT_THROW(parallel_for(100, 1, fail), Error);
  EXPECT_THROW(parallel_jobs(100, fail), Error);
}

TEST(Parallel, GoesOnInAForkedProcess) {
  omp_set_num_threads(2);
  std::vector<int> visits(100);
  const auto visit_all = [&] {
    parallel_for(visits.size(), 1, [&](std::size_t i) { ++visits[i]; });
    parallel_jobs(visits.size(), [&](std::size_t i) { ++visits[i]; });
  };
  visit_all();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);             // in case it waits for missing threads
    omp_set_num_threads(2);  // as a caller may do
    visit_all();
    std::_Exit(visits == std::vector<int>(100, 4) ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Matrix, IsEmptyOnceMovedFrom) {
  Matrix<float> a(2, 3);
  const Matrix<float> b = std::move(a);
  EXPECT_EQ(b.rows(), 2U);
  a.resize(2, 3);  // NOLINT(bugprone-use-after-move): that is the point
  a.fill(1);
  EXPECT_EQ(a(1, 2), 1);
}

TEST(Matrix, StaysAsItWasWhereThereIsNoMemory) {
  Matrix<float> a(2, 3);
  const std::size_t half = std::size_t{1} << 32;
  EXPECT_THROW(a.resize(half, half), std::bad_alloc);  // the product overflows to 0
  EXPECT_THROW(a.resize(1, std::size_t{1} << 60), std::bad_alloc);
  EXPECT_EQ(a.rows(), 2U);
  a.resize(4, 5);  // would write after the first six if the failed calls had changed its size
  a.fill(1);
  EXPECT_EQ(a(3, 4), 1);
}

}  // namespace
}  // namespace addnorm
