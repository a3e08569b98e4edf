/// Four lanes of a residual stream, forward and backward, beside a copy of as many bytes as must be
/// read and written at least. Medians, in turn.
///
///     lanes_bench [SECONDS_PER_ROW]
///     lanes_bench forward|backward f32|bf16 FEATURES     milliseconds, one call for each line of
///     input

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "addnorm/lanes.h"
#include "addnorm/matrix.h"
#include "addnorm/torch_generator.h"
#include "bench/memory_copy.h"
#include "stopwatch.h"

namespace addnorm {
namespace {

constexpr std::size_t kRows = 4096;
constexpr std::size_t kLanes = 4;

template <typename T>
Matrix<T> random(std::size_t rows, std::size_t cols) {
  static TorchGenerator generator(0);
  Matrix<float> values(rows, cols);
  generator.fill_uniform(values.flat(), -1, 1);
  Matrix<T> result(rows, cols);
  std::ranges::transform(values.flat(), result.flat().begin(), [](float v) { return T(v); });
  return result;
}

template <typename T>
struct Data {
  explicit Data(std::size_t features_) : features(features_) {}

  LanesView<T> lanes(Matrix<T>& matrix) const { return {matrix.data(), kRows, kLanes, features}; }

  LanesForward<T> forward() {
    return {.x = lanes(x),
            .branch = MatrixView<const T>(branch),
            .carry = carry,
            .write = write,
            .sum = lanes(sum),
            .read = read,
            .norm = NormOptions{.kind = NormKind::kRms},
            .gamma = gamma.flat(),
            .y = MatrixView<T>(y),
            .statistics = statistics};
  }
  LanesBackward<T> backward() {
    return {.forward = forward(),
            .d_sum = lanes(d_sum),
            .dy = MatrixView<const T>(dy),
            .dx = lanes(sum),
            .d_branch = MatrixView<T>(y),
            .d_carry = d_carry,
            .d_write = d_write,
            .d_read = d_read,
            .d_gamma = d_gamma.flat(),
            .workspace = workspace.flat()};
  }

  std::size_t features;
  Matrix<T> x = random<T>(kRows, kLanes*features), d_sum = random<T>(kRows, kLanes*features);
  Matrix<T> branch = random<T>(kRows, features), dy = random<T>(kRows, features);
  Matrix<T> sum = random<T>(kRows, kLanes*features), y = random<T>(kRows, features);
  Matrix<float> carry = random<float>(1, kLanes*kLanes), write = random<float>(1, kLanes);
  Matrix<float> read = random<float>(1, kLanes), gamma = random<float>(1, features);
  Matrix<float> d_carry{1, kLanes*kLanes}, d_write{1, kLanes}, d_read{1, kLanes};
  Matrix<float> d_gamma{1, features}, workspace{1, lanes_workspace(kRows, kLanes, features)};
  std::vector<NormStatistics<float>> statistics = std::vector<NormStatistics<float>>(kRows);
};

double median(std::vector<double>& times) {
  std::ranges::nth_element(times, times.begin() + times.size() / 2);
  return times[times.size() / 2];
}

/// Prints the time of work(), and of a copy that reads and writes `bytes`.
template <typename Work>
void print_row(const char* name, const char* type, std::size_t features, std::size_t bytes,
               double seconds, const Work& work) {
  Matrix<float> from = random<float>(1, bytes / 8), to = random<float>(1, bytes / 8);
  const auto copy = [&](bench::Stores stores) {
    return milliseconds([&] {
      bench::memory_copy(reinterpret_cast<const std::byte*>(from.data()),
                         reinterpret_cast<std::byte*>(to.data()), bytes / 2, stores);
    });
  };
  work();
  std::vector<double> works, cached, past_caches;
  for (double left = seconds * 1e3; left > 0 || works.size() < 5;) {
    works.push_back(milliseconds(work));
    cached.push_back(copy(bench::Stores::kOrdinary));
    past_caches.push_back(copy(bench::Stores::kNonTemporal));
    left -= works.back() + cached.back() + past_caches.back();
  }
  const double time = median(works), copied = std::min(median(cached), median(past_caches));
  fmt::print("{:<9} {:<5} {}x{}x{:<5} {:8.2f} ms {:8.2f} ms a copy  {:3.0f} %\n", name, type, kRows,
             kLanes, features, time, copied, 100 * copied / time);
}

template <typename T>
void measure(const char* type, double seconds) {
  for (const std::size_t features : {1024, 4096}) {
    Data<T> data(features);
    const std::size_t lane = kRows * features * sizeof(T);
    print_row("forward", type, features, (2 * kLanes + 2) * lane, seconds,
              [&] { lanes_forward<T>(data.forward()); });
    print_row("backward", type, features, (3 * kLanes + 3) * lane, seconds,
              [&] { lanes_backward<T>(data.backward()); });
  }
}

/// A candidate of lanes_vs_torch.py.
template <typename T>
void answer_lines(bool forward, std::size_t features) {
  Data<T> data(features);
  for (int c = std::getchar(); c != EOF; c = std::getchar()) {
    if (c != '\n') continue;
    const double time = milliseconds(
        [&] { forward ? lanes_forward<T>(data.forward()) : lanes_backward<T>(data.backward()); });
    fmt::print("{}\n", time);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace addnorm

int main(int argc, char** argv) {
  if (argc == 4) {
    const bool forward = std::string_view(argv[1]) == "forward";
    const std::size_t features = std::strtoul(argv[3], nullptr, 10);
    std::string_view(argv[2]) == "f32"
        ? addnorm::answer_lines<float>(forward, features)
        : addnorm::answer_lines<addnorm::BFloat16>(forward, features);
    return 0;
  }
  const double seconds = argc > 1 ? std::atof(argv[1]) : 0.5;
  addnorm::measure<float>("f32", seconds);
  addnorm::measure<addnorm::BFloat16>("bf16", seconds);
}
