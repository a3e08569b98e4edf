/// Measures four lanes of a residual stream, forward and backward, next to a copy of the bytes that
/// must at least be read and written. Times are medians of alternating runs.
///
///     lanes_bench [SECONDS_PER_ROW]
///     lanes_bench forward|backward f32|bf16 FEATURES     milliseconds, one call for each line of
///     input
///     lanes_bench site     a whole Add & Norm of mHC next to one with static coefficients

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "addnorm/lanes.h"
#include "addnorm/matrix.h"
#include "addnorm/nn/add_norm.h"
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

/// Prints the time of work(), and that of a copy that reads and writes `bytes`.
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

/// A sublayer with the cost of a copy.
template <typename T>
struct Copy : Sublayer<T> {
  void forward(MatrixView<const T> x, MatrixView<T> y, const Pass<T>& /*pass*/) override {
    std::copy_n(x.data, x.rows * x.cols, y.data);
  }
  void backward(MatrixView<const T> /*x*/, MatrixView<const T> dy, MatrixView<T> dx,
                const Pass<T>& /*pass*/) override {
    std::copy_n(dy.data, dy.rows * dy.cols, dx.data);
  }
};

/// One Add & Norm on a stream of four lanes, with all its computations.
template <typename T>
class WholeSite {
 public:
  WholeSite(const char* placement, std::size_t features)
      : add_norm_(find_placement(placement), {.d_model = features,
                                              .norm = {.kind = NormKind::kRms},
                                              .depth = {.layer = 2, .layers = 4},
                                              .lanes = kLanes}) {
    pass_.batch = kRows;
    pass_.scratch = &scratch_;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      values_.push_back(random<Arithmetic<T>>(kRows, features));
      gradients_.push_back(random<Arithmetic<T>>(kRows, features));
    }
  }
  void forward() {
    ResidualStream<T> stream(LaneList<const Arithmetic<T>>(values_.begin(), values_.end()));
    add_norm_.forward(stream, copy_, pass_);
  }
  void backward() {
    StreamGradient<T> gradient(LaneList<Arithmetic<T>>(gradients_.begin(), gradients_.end()));
    add_norm_.backward(gradient, copy_, pass_);
  }

 private:
  AddNorm<T> add_norm_;
  Copy<T> copy_;
  Scratch<T> scratch_;
  Pass<T> pass_;
  std::vector<Matrix<Arithmetic<T>>> values_, gradients_;
};

template <typename T>
void compare_sites(const char* type, std::size_t features) {
  WholeSite<T> fixed("hyper", features), made("mhc", features);
  std::vector<double> forward[2], backward[2];
  for (int round = 0; round < 15; ++round) {
    int which = 0;
    for (WholeSite<T>* site : {&fixed, &made}) {
      forward[which].push_back(milliseconds([&] { site->forward(); }));
      backward[which++].push_back(milliseconds([&] { site->backward(); }));
    }
  }
  for (auto& [name, times] : {std::pair{"forward", forward}, std::pair{"backward", backward}}) {
    const double of_static = median(times[0]), of_mhc = median(times[1]);
    fmt::print("{:<9} {:<5} {}x{}x{:<5} {:8.2f} ms static {:8.2f} ms mHC  x{:.2f}\n", name, type,
               kRows, kLanes, features, of_static, of_mhc, of_mhc / of_static);
  }
}

/// Runs a candidate of lanes_vs_torch.py.
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
  if (argc == 2 && std::string_view(argv[1]) == "site") {
    for (const std::size_t features : {1024, 4096}) {
      addnorm::compare_sites<float>("f32", features);
      addnorm::compare_sites<addnorm::BFloat16>("bf16", features);
    }
    return 0;
  }
  const double seconds = argc > 1 ? std::atof(argv[1]) : 0.5;
  addnorm::measure<float>("f32", seconds);
  addnorm::measure<addnorm::BFloat16>("bf16", seconds);
}
