/// Measures the cost of each option of add_norm_forward and add_norm_backward, as a multiple of the
/// plain call's time, which `addnorm bench` measures. It also compares float16 with bfloat16. Times
/// are medians of alternating runs.
///
///     norm_bench [SECONDS_PER_RATIO]

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <vector>

#include "addnorm/matrix.h"
#include "addnorm/norm.h"
#include "addnorm/torch_generator.h"
#include "stopwatch.h"

namespace addnorm {
namespace {

struct Shape {
  std::size_t rows, features;
};
constexpr Shape kShapes[] = {{64, 768}, {1024, 64}, {8192, 768}, {8192, 4096}};

template <typename T>
struct Data {
  explicit Data(Shape shape)
      : gamma(1, shape.features),
        beta(1, shape.features),
        gain(1, shape.features),
        d_gamma(1, shape.features),
        d_beta(1, shape.features),
        workspace(1, add_norm_workspace(shape.rows, shape.features)),
        statistics(shape.rows, {.reciprocal = 1}) {
    TorchGenerator generator(0);
    Matrix<float> values(shape.rows, shape.features);
    for (Matrix<T>* matrix : {&x, &branch, &sum, &y}) {
      matrix->resize(shape.rows, shape.features);
      generator.fill_uniform(values.flat(), -1, 1);
      std::ranges::transform(values.flat(), matrix->flat().begin(), [](float v) { return T(v); });
    }
    gamma.fill(1);
    gain.fill(0.5F);
  }

  AddNormForward<T> forward() {
    return {.add = {.x = x, .branch = branch},
            .sum = sum,
            .gamma = gamma.flat(),
            .beta = beta.flat(),
            .y = y,
            .statistics = statistics};
  }
  AddNormBackward<T> backward() {
    return {.s = x,
            .statistics = statistics,
            .gamma = gamma.flat(),
            .dy = y,
            .d_residual = branch,
            .dx = sum,
            .d_gamma = d_gamma.flat(),
            .d_beta = d_beta.flat(),
            .workspace = workspace.flat()};
  }

  Matrix<T> x, branch, sum, y;
  Matrix<float> gamma, beta, gain, d_gamma, d_beta, workspace;
  std::vector<NormStatistics<float>> statistics;
};

/// A call of a norm, and the change that an option makes to it.
template <typename Args, typename Data>
struct Option {
  const char* name;
  void (*change)(NormOptions& norm, Args& args, Data& data);
};

template <typename T>
constexpr Option<AddNormForward<T>, Data<T>> kForward[] = {
    {"RMSNorm, no β",
     [](auto& norm, auto& args, auto&) { norm.kind = NormKind::kRms, args.beta = {}; }},
    {"1 + γ", [](auto& norm, auto&, auto&) { norm.gamma_form = GammaForm::kOnePlus; }},
    {"no β", [](auto&, auto& args, auto&) { args.beta = {}; }},
    {"one gain", [](auto&, auto& args, auto&) { args.add.gain.constant = 0.5F; }},
    {"gain, a vector",
     [](auto&, auto& args, auto& data) { args.add.gain.vector = data.gain.flat(); }},
    {"dropout", [](auto&, auto& args, auto&) { args.add.dropout.probability = 0.1; }},
    {"sum in place", [](auto&, auto& args, auto& data) { args.sum = data.x; }},
    {"sum not kept", [](auto&, auto& args, auto&) { args.sum = {}; }},
};

template <typename T>
constexpr Option<AddNormBackward<T>, Data<T>> kBackward[] = {
    {"RMSNorm, no β",
     [](auto& norm, auto& args, auto&) { norm.kind = NormKind::kRms, args.d_beta = {}; }},
    {"1 + γ", [](auto& norm, auto&, auto&) { norm.gamma_form = GammaForm::kOnePlus; }},
    {"no β", [](auto&, auto& args, auto&) { args.d_beta = {}; }},
    {"one skip", [](auto&, auto& args, auto&) { args.skip.constant = 0.5F; }},
    {"skip, a vector", [](auto&, auto& args, auto& data) { args.skip.vector = data.gain.flat(); }},
    {"dx in place", [](auto&, auto& args, auto& data) { args.dx = data.branch; }},
    {"dx alone", [](auto&, auto& args, auto&) { args.d_gamma = args.d_beta = {}; }},
};

template <typename T>
void call(const NormOptions& norm, const AddNormForward<T>& args) {
  add_norm_forward(norm, args);
}
template <typename T>
void call(const NormOptions& norm, const AddNormBackward<T>& args) {
  add_norm_backward(norm, args);
}

template <typename Row>
void print_row(const char* name, const Row& row) {
  fmt::print("  {:<18}", name);
  for (const Shape shape : kShapes) fmt::print("{:>11.2f}", row(shape));
  fmt::print("\n");
}

void print_title(const char* title) {
  fmt::print("{:<20}", title);
  for (const Shape shape : kShapes) {
    fmt::print("{:>11}", fmt::format("{}x{}", shape.rows, shape.features));
  }
  fmt::print("\n");
}

template <typename T, typename Options, typename Args>
void measure(double seconds, const char* title, const Options& options, Args (Data<T>::*plain)()) {
  print_title(title);
  for (const auto& option : options) {
    print_row(option.name, [&](Shape shape) {
      Data<T> data(shape);
      const Args plain_args = (data.*plain)();
      Args args = plain_args;
      NormOptions norm;
      option.change(norm, args, data);
      return ratio(
          seconds, [&] { call<T>({}, plain_args); }, [&] { call<T>(norm, args); });
    });
  }
}

void measure_float16(double seconds) {
  print_title("float16 / bfloat16");
  const auto row = [&](auto forward_or_backward) {
    return [=](Shape shape) {
      Data<BFloat16> plain(shape);
      Data<Float16> data(shape);
      const auto plain_args = forward_or_backward(plain);
      const auto args = forward_or_backward(data);
      return ratio(
          seconds, [&] { call<BFloat16>({}, plain_args); }, [&] { call<Float16>({}, args); });
    };
  };
  print_row("forward", row([](auto& data) { return data.forward(); }));
  print_row("backward", row([](auto& data) { return data.backward(); }));
}

}  // namespace
}  // namespace addnorm

int main(int argc, char** argv) {
  using namespace addnorm;
  const double seconds = argc > 1 ? std::atof(argv[1]) : 0.5;
  measure<float>(seconds, "forward, f32", kForward<float>, &Data<float>::forward);
  measure<float>(seconds, "backward, f32", kBackward<float>, &Data<float>::backward);
  measure<BFloat16>(seconds, "forward, bf16", kForward<BFloat16>, &Data<BFloat16>::forward);
  measure<BFloat16>(seconds, "backward, bf16", kBackward<BFloat16>, &Data<BFloat16>::backward);
  measure_float16(seconds);
}
