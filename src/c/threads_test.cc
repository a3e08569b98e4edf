/// Tests of calls with a number of threads.

#include <gtest/gtest.h>
#include <omp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "addnorm.h"
#include "addnorm/layer_norm.h"
#include "addnorm/matrix.h"
#include "addnorm/norm.h"
#include "addnorm/torch_generator.h"
#include "support/compare.h"

namespace addnorm {
namespace {

/// Returns the threads of this process.
std::set<std::string> tasks() {
  std::set<std::string> names;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    names.insert(task.path().filename());
  }
  return names;
}

/// Returns the number of threads that a call starts. The process keeps them for later calls.
std::size_t threads_started_by(const std::function<void()>& call) {
  const std::set<std::string> before = tasks();
  call();
  return std::ranges::count_if(tasks(), [&](auto& task) { return !before.contains(task); });
}

/// Every function with a number of threads, on enough rows or channels for all of them.
struct Calls {
  static constexpr std::size_t kRows = 2000, kCols = 512;

  Matrix<float> x{kRows, kCols}, branch{kRows, kCols}, y{kRows, kCols}, dx{kRows, kCols};
  Matrix<float> gradient{1, kCols}, workspace{3, kRows*kCols};
  std::vector<NormStatistics<float>> statistics = std::vector<NormStatistics<float>>(kRows);
  std::size_t threads;

  explicit Calls(std::size_t n) : threads(n) {
    for (Matrix<float>* matrix : {&x, &branch, &y}) matrix->fill(0.5F);
  }

  std::vector<std::function<void()>> all() {
    const NormOptions batch{.kind = NormKind::kBatch};
    const AddNormForward<float> channels{.add = {.x = x},
                                         .y = dx,
                                         .statistics = std::span(statistics).first(kCols),
                                         .workspace = workspace.flat()};
    const AddNormBackward<float> channels_back{.s = x,
                                               .statistics = channels.statistics,
                                               .dy = x,
                                               .dx = dx,
                                               .workspace = workspace.flat()};
    return {
        [this] { residual_add<float>({.x = x, .branch = branch}, y, threads); },
        [this] {
          residual_add_backward<float>({.add = {.x = x, .branch = branch},
                                        .d_sum = x,
                                        .d_branch = dx,
                                        .d_skip = gradient.flat()},
                                       threads);
        },
        [this] {
          add_norm_forward<float>(
              {}, {.add = {.x = x, .branch = branch}, .y = y, .statistics = statistics}, threads);
        },
        [this] {
          add_norm_backward<float>({},
                                   {.s = x,
                                    .statistics = statistics,
                                    .dy = branch,
                                    .dx = dx,
                                    .d_gamma = gradient.flat(),
                                    .workspace = workspace.flat()},
                                   threads);
        },
        [=, this] { add_norm_forward(batch, channels, threads); },
        [=, this] { add_norm_backward(batch, channels_back, threads); },
        [this] { layer_norm(x, {}, {}, y, statistics, 1e-5, threads); },
        [this] { rms_norm(x, {}, y, statistics, 1e-5, threads); },
        [this] { add_layer_norm(x, branch, {}, {}, {}, y, statistics, 1e-5, threads); },
        [this] { add_rms_norm(x, branch, {}, {}, y, statistics, 1e-5, threads); },
        [this] { layer_norm_backward(x, statistics, {}, branch, dx, {}, threads); },
        [this] { rms_norm_backward(x, statistics, {}, branch, dx, {}, threads); },
        [this] { add_layer_norm_backward(x, statistics, {}, branch, x, dx, {}, threads); },
        [this] { add_rms_norm_backward(x, statistics, {}, branch, x, dx, {}, threads); },
        [this] {
          const addnorm_add_norm_forward_args args{.size = sizeof args,
                                                   .rows = kRows,
                                                   .features = kCols,
                                                   .add = {.x = x.flat().data()},
                                                   .y = y.flat().data(),
                                                   .threads = threads};
          EXPECT_EQ(addnorm_add_norm_forward(&args), ADDNORM_OK);
        },
    };
  }
};

TEST(Threads, OfACallAreAsManyAsItSays) {
  omp_set_num_threads(1);
  std::size_t started = tasks().size();  // including the caller's
  for (std::size_t i = 0; i < Calls(1).all().size(); ++i) {
    Calls one(1), same(started), more(started + 1);
    EXPECT_EQ(threads_started_by(one.all()[i]), 0U) << "call " << i;
    EXPECT_EQ(threads_started_by(same.all()[i]), 0U) << "call " << i;
    EXPECT_EQ(threads_started_by(more.all()[i]), 1U) << "call " << i;
    EXPECT_EQ(omp_get_max_threads(), 1) << "a call's number of threads must end with it";
    ++started;
  }
}

/// Returns the exit status of a child process that makes a call: 0, unless it waits for threads
/// that it lacks.
int end_of_fork(const std::function<bool()>& call) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    std::_Exit(call() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(Threads, OfAForkedProcessAreOne) {
  omp_set_num_threads(2);
  for (const std::size_t threads : {0, 2}) {
    Calls calls(threads);
    for (const auto& call : calls.all()) {
      call();
      const std::vector<float> y(calls.y.flat().begin(), calls.y.flat().end());
      const std::vector<float> dx(calls.dx.flat().begin(), calls.dx.flat().end());
      EXPECT_EQ(end_of_fork([&] {
                  omp_set_num_threads(3);  // a caller may not know
                  call();
                  return std::ranges::equal(calls.y.flat(), y) &&
                         std::ranges::equal(calls.dx.flat(), dx);
                }),
                0);
    }
  }
}

/// Returns the results of the calls, one after the other, on numbers that differ by caller.
std::vector<float> results_of(std::size_t caller) {
  Calls calls(1 + caller % 2);
  TorchGenerator generator(caller);
  for (Matrix<float>* matrix : {&calls.x, &calls.branch, &calls.y, &calls.dx}) {
    generator.fill_normal<float>(matrix->flat(), 0, 1);
  }
  std::vector<float> results;
  for (const auto& call : calls.all()) {
    call();
    for (const Matrix<float>* matrix : {&calls.y, &calls.dx, &calls.gradient}) {
      results.insert(results.end(), matrix->flat().begin(), matrix->flat().end());
    }
  }
  return results;
}

TEST(Threads, ThatCallAtTheSameTimeGetTheBitsOfThoseThatDoNot) {
  constexpr std::size_t kCallers = 8;
  std::vector<std::vector<float>> results(kCallers);
  std::vector<std::thread> callers;
  for (std::size_t i = 0; i < kCallers; ++i) {
    callers.emplace_back([&, i] { results[i] = results_of(i); });
  }
  for (std::thread& caller : callers) caller.join();
  for (std::size_t i = 0; i < kCallers; ++i) {
    EXPECT_TRUE(testing::same_bits(results[i], results_of(i))) << "caller " << i;
  }
}

TEST(Threads, AreOpenMPsWhereACallDoesNotSay) {
  for (std::size_t i = 0; i < Calls(0).all().size(); ++i) {
    omp_set_num_threads(static_cast<int>(tasks().size()) + 1);
    Calls calls(0);
    EXPECT_EQ(threads_started_by(calls.all()[i]), 1U) << "call " << i;
  }
}

}  // namespace
}  // namespace addnorm
