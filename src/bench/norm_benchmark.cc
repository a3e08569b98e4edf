#include "bench/norm_benchmark.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <thread>
#include <utility>

#include "addnorm/matrix.h"
#include "base/parallel.h"
#include "base/require.h"
#include "bench/memory_copy.h"
#include "bench/onednn_norm.h"

namespace addnorm::bench {
namespace {

using Work = std::function<void()>;
/// Returns the milliseconds of one call, averaged over `calls` calls.
using Candidate = std::function<double(std::size_t calls)>;

constexpr std::size_t kMostCalls = 1'000'000;

using Milliseconds = std::chrono::duration<double, std::milli>;

Candidate timed(Work work, double sample_ms) {
  return [work = std::move(work), sample_ms](std::size_t calls) {
    // The threads of the previous candidate may still spin.
    std::this_thread::sleep_for(Milliseconds(2 * sample_ms));
    const auto warm = std::chrono::steady_clock::now() + Milliseconds(0.2 * sample_ms);
    do {  // so that threads are awake, and the caches are in this candidate's state
      work();
    } while (std::chrono::steady_clock::now() < warm);
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < calls; ++i) work();
    const Milliseconds time = std::chrono::steady_clock::now() - start;
    return time.count() / static_cast<double>(calls);
  };
}

/// Returns the number of calls in a sample. It must be long enough three times, because another
/// program may have disturbed a measurement.
std::size_t calls_of(const Candidate& candidate, double sample_ms) {
  candidate(1);  // first use of memory and threads
  std::size_t calls = 1;
  for (int long_enough = 0; long_enough < 3;) {
    const double ms = std::max(candidate(calls), 1e-6);
    if (ms * static_cast<double>(calls) >= sample_ms || calls == kMostCalls) {
      ++long_enough;
    } else {
      calls = std::clamp(static_cast<std::size_t>(1.1 * sample_ms / ms), calls + 1, kMostCalls);
    }
  }
  return calls;
}

/// Measures the candidates alternately, and writes the median of each one's milliseconds.
void time_in_turn(const std::vector<std::pair<Candidate, double*>>& candidates,
                  const Options& options) {
  std::vector<std::size_t> calls;
  for (const auto& [candidate, ms] : candidates)
    calls.push_back(calls_of(candidate, options.sample_ms));
  std::vector<std::vector<double>> samples(candidates.size());
  for (std::size_t r = 0; r < options.repeats; ++r) {
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      samples[c].push_back(candidates[c].first(calls[c]));
    }
  }
  for (std::size_t c = 0; c < candidates.size(); ++c) *candidates[c].second = median(samples[c]);
}

/// A job's matrices, one after the other in one piece of memory, and its parameters.
template <typename T>
class Data {
 public:
  explicit Data(const Job& job)
      : job_(job),
        distance_((job.shape.size() + kLine - 1) / kLine * kLine + kPage),
        memory_(job.kernel.matrices(), distance_),
        scale_shift_(2, job.shape.cols),
        d_scale_shift_(2, job.shape.cols),
        workspace_(1, add_norm_workspace(job.shape.rows, job.shape.cols)),
        statistics_(job.shape.rows) {
    fill_matrices();
    fill(scale_shift_.flat(), memory_.rows());
    // Statistics for backward; dx is unused until then.
    if (job.kernel.backward) normalize({.x = matrix(0)}, {});
  }

  /// Runs the job with our kernels.
  void run() {
    if (job_.kernel.backward) return differentiate();
    job_.kernel.add ? normalize({.x = matrix(0), .branch = matrix(1)}, matrix(job_.kernel.sum()))
                    : normalize({.x = matrix(0)}, {});
  }

  /// Reads and writes as many bytes as the job must. Overwritten inputs stay random.
  void copy(Stores stores) {
    auto* bytes = reinterpret_cast<std::byte*>(memory_.data());
    const std::size_t half = memory_.flat().size_bytes() / 2 / 64 * 64;
    const std::size_t values = job_.kernel.matrices() * job_.shape.size();
    memory_copy(bytes, bytes + half, values * sizeof(T) / 2, stores);
  }

  Arrays arrays() {
    Arrays arrays{.scale_shift = scale_shift_.data(), .d_scale_shift = d_scale_shift_.data()};
    for (std::size_t i = 0; i < memory_.rows(); ++i) arrays.matrices.push_back(matrix(i).data);
    return arrays;
  }

  /// Returns the results of a run: some rows of y and of the sum, or of dx, and the parameters'
  /// gradients.
  std::vector<std::vector<float>> outcome_of(const Work& work) {
    if (job_.kernel.in_place) fill_matrices();
    d_scale_shift_.fill(0);  // our kernels add to the gradients
    work();
    if (job_.kernel.backward) {
      const std::span<const float> gradients = d_scale_shift_.flat();
      return {some_rows(matrix(job_.kernel.dx())), {gradients.begin(), gradients.end()}};
    }
    std::vector<std::vector<float>> outcome{some_rows(last())};
    if (job_.kernel.add) outcome.push_back(some_rows(matrix(job_.kernel.sum())));
    return outcome;
  }

 private:
  static constexpr std::size_t kLine = 64 / sizeof(T);
  /// Separately allocated matrices are not a power of two apart either.
  static constexpr std::size_t kPage = 4096 / sizeof(T);

  /// Uniform between −1 and 1.
  template <typename U>
  static void fill(std::span<U> values, std::size_t seed) {
    auto state = static_cast<std::uint32_t>(seed + 1);
    for (U& value : values) {
      state = 1664525 * state + 1013904223;  // Numerical Recipes' generator
      value = U(static_cast<float>(state >> 8) / static_cast<float>(1 << 23) - 1);
    }
  }

  static std::vector<float> some_rows(MatrixView<const T> matrix) {
    constexpr std::size_t kSome = 64;
    std::vector<float> values;
    for (std::size_t i = 0; i < std::min(kSome, matrix.rows); ++i) {
      const std::size_t row = matrix.rows <= kSome ? i : i * (matrix.rows - 1) / (kSome - 1);
      for (const T value : matrix.row(row)) values.push_back(static_cast<float>(value));
    }
    return values;
  }

  MatrixView<T> matrix(std::size_t i) {
    return {memory_.data() + i * distance_, job_.shape.rows, job_.shape.cols};
  }
  MatrixView<T> last() { return matrix(memory_.rows() - 1); }
  void fill_matrices() {
    parallel_for(memory_.rows(), 1, [&](std::size_t r) { fill(memory_.view().row(r), r); });
  }
  NormOptions options() const { return {.kind = job_.kernel.norm}; }
  std::span<float> gamma(Matrix<float>& of) const { return of.view().row(0); }
  std::span<float> beta(Matrix<float>& of) const {
    return job_.kernel.norm == NormKind::kLayer ? of.view().row(1) : std::span<float>{};
  }

  void normalize(const ResidualAdd<T>& add, MatrixView<T> sum) {
    add_norm_forward(options(), AddNormForward<T>{.add = add,
                                                  .sum = sum,
                                                  .gamma = gamma(scale_shift_),
                                                  .beta = beta(scale_shift_),
                                                  .y = last(),
                                                  .statistics = statistics_});
  }
  void differentiate() {
    add_norm_backward(
        options(), AddNormBackward<T>{.s = matrix(0),
                                      .statistics = statistics_,
                                      .gamma = gamma(scale_shift_),
                                      .dy = matrix(1),
                                      .d_residual = job_.kernel.add ? matrix(2) : MatrixView<T>{},
                                      .dx = matrix(job_.kernel.dx()),
                                      .d_gamma = gamma(d_scale_shift_),
                                      .d_beta = beta(d_scale_shift_),
                                      .workspace = workspace_.flat()});
  }

  Job job_;
  std::size_t distance_;  // between two matrices
  Matrix<T> memory_;
  Matrix<float> scale_shift_, d_scale_shift_, workspace_;
  std::vector<NormStatistics<float>> statistics_;
};

/// The largest difference, relative to the largest value of the same kind, or to 1.
double difference(const std::vector<std::vector<float>>& ours,
                  const std::vector<std::vector<float>>& theirs) {
  double worst = 0;
  for (std::size_t k = 0; k < ours.size(); ++k) {
    double largest = 1;
    for (const float value : theirs[k]) largest = std::max<double>(std::abs(value), largest);
    for (std::size_t i = 0; i < ours[k].size(); ++i) {
      const double error = std::abs(ours[k][i] - theirs[k][i]) / largest;
      if (!std::isfinite(error)) return error;
      worst = std::max(worst, error);
    }
  }
  return worst;
}

template <typename T>
Result benchmark_of(const Job& job, const Options& options, double tolerance,
                    std::span<const std::unique_ptr<PythonRival>> rivals) {
  Data<T> data(job);
  const Work ours = [&] { data.run(); };
  const Work onednn = onednn_norm(job, data.arrays());
  if (onednn) {
    const double error = difference(data.outcome_of(ours), data.outcome_of(onednn));
    require(error <= tolerance,
            "{} {} {}: differs from oneDNN's by {:.2g} of the largest value; expected at most {}",
            job.kernel.name, to_text(job.shape), job.dtype, error, tolerance);
  }
  Result result{.job = job, .options = options};
  double ordinary_copy_ms = 0, non_temporal_copy_ms = 0;
  // Each candidate with the address of its median in the result.
  std::vector<std::pair<Candidate, double*>> candidates;
  const auto add = [&](Work work, double& ms) {
    candidates.emplace_back(timed(std::move(work), options.sample_ms), &ms);
  };
  add(ours, result.ms);
  add([&] { data.copy(Stores::kOrdinary); }, ordinary_copy_ms);
  add([&] { data.copy(Stores::kNonTemporal); }, non_temporal_copy_ms);
  if (onednn) add(onednn, result.onednn_ms.emplace());
  result.rivals.reserve(rivals.size());  // so that addresses stay valid
  for (const auto& rival : rivals) {
    result.rivals.push_back({.kind = rival->kind()});
    std::optional<double>& ms = result.rivals.back().ms;
    if (rival->prepare(job, options.threads)) {
      candidates.emplace_back([&](std::size_t calls) { return rival->time(calls); }, &ms.emplace());
    }
  }
  time_in_turn(candidates, options);
  result.copy_ms = std::min(ordinary_copy_ms, non_temporal_copy_ms);
  for (RivalTime& time : result.rivals) {
    if (time.ms && !std::isfinite(*time.ms)) time.ms.reset();
  }
  return result;
}

struct Storage {
  std::string_view dtype;
  Result (*run)(const Job&, const Options&, double tolerance,
                std::span<const std::unique_ptr<PythonRival>>);
  double tolerance;  // for oneDNN's result: some roundings of the type
};

constexpr Storage kStorages[] = {
    {"f32", benchmark_of<float>, 1e-4},
    {"bf16", benchmark_of<BFloat16>, 3e-2},
    {"f16", benchmark_of<Float16>, 4e-3},
};

const Storage& storage_of(const std::string& dtype) {
  const auto* found = std::ranges::find(kStorages, dtype, &Storage::dtype);
  require(found != std::end(kStorages), "type '{}' cannot be measured", dtype);
  return *found;
}

}  // namespace

std::vector<std::string> all_dtypes() {
  std::vector<std::string> names;
  for (const Storage& storage : kStorages) names.emplace_back(storage.dtype);
  return names;
}

Result run_benchmark(const Job& job, const Options& options,
                     std::span<const std::unique_ptr<PythonRival>> rivals) {
  omp_set_num_threads(options.threads);
  const Storage& storage = storage_of(job.dtype);
  return storage.run(job, options, storage.tolerance, rivals);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace addnorm::bench
