/// What each option of add_norm_forward and add_norm_backward costs beside the plain call, which
/// `addnorm bench` races: in bytes per second of the matrices that must be read or written.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstddef>
#include <vector>

#include "addnorm/matrix.h"
#include "addnorm/norm.h"
#include "addnorm/torch_generator.h"

namespace addnorm {
namespace {

struct Data {
  Data(std::size_t rows, std::size_t cols)
      : gamma(1, cols),
        beta(1, cols),
        d_gamma(1, cols),
        d_beta(1, cols),
        workspace(1, add_norm_workspace(rows, cols)),
        statistics(rows, {.reciprocal = 1}) {
    TorchGenerator generator(0);
    for (Matrix<float>* matrix : {&x, &branch, &sum, &y}) {
      matrix->resize(rows, cols);
      generator.fill_uniform(matrix->flat(), -1, 1);
    }
    gamma.fill(1);
  }

  AddNormForward<float> forward() {
    return {.add = {.x = x, .branch = branch},
            .sum = sum,
            .gamma = gamma.flat(),
            .beta = beta.flat(),
            .y = y,
            .statistics = statistics};
  }
  AddNormBackward<float> backward() {
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

  Matrix<float> x, branch, sum, y;
  Matrix<float> gamma, beta, d_gamma, d_beta, workspace;
  std::vector<NormStatistics<float>> statistics;
};

/// A change of the plain call, and how many matrices it must read or write.
template <typename Args>
struct Variant {
  const char* name;
  std::size_t matrices;
  void (*change)(NormOptions& norm, Args& args, Data& data);
};

constexpr Variant<AddNormForward<float>> kForward[] = {
    {"plain", 4, [](auto&, auto&, auto&) {}},
    {"rms", 4, [](auto& norm, auto&, auto&) { norm.kind = NormKind::kRms; }},
    {"sum in place", 4, [](auto&, auto& args, auto& data) { args.sum = data.x; }},
    {"sum not kept", 3, [](auto&, auto& args, auto&) { args.sum = {}; }},
    {"statistics not kept", 4, [](auto&, auto& args, auto&) { args.statistics = {}; }},
    {"gamma and beta absent", 4, [](auto&, auto& args, auto&) { args.gamma = args.beta = {}; }},
    {"1 + gamma", 4, [](auto& norm, auto&, auto&) { norm.gamma_form = GammaForm::kOnePlus; }},
    {"gain", 4, [](auto&, auto& args, auto&) { args.add.gain.constant = 0.5F; }},
    {"dropout", 4, [](auto&, auto& args, auto&) { args.add.dropout.probability = 0.1; }},
};

constexpr Variant<AddNormBackward<float>> kBackward[] = {
    {"plain", 4, [](auto&, auto&, auto&) {}},
    {"rms", 4, [](auto& norm, auto&, auto&) { norm.kind = NormKind::kRms; }},
    {"dx in place", 4, [](auto&, auto& args, auto& data) { args.dx = data.branch; }},
    {"dx alone", 4, [](auto&, auto& args, auto&) { args.d_gamma = args.d_beta = {}; }},
    {"skip", 4, [](auto&, auto& args, auto&) { args.skip.constant = 0.5F; }},
};

void run(const NormOptions& norm, const AddNormForward<float>& args) {
  add_norm_forward(norm, args);
}
void run(const NormOptions& norm, const AddNormBackward<float>& args) {
  add_norm_backward(norm, args);
}

template <typename Args>
void measure(std::size_t rows, std::size_t cols, const char* way, const Variant<Args>& variant,
             Args (Data::*plain)()) {
  auto loop = [=](benchmark::State& state) {
    Data data(rows, cols);
    NormOptions norm;
    Args args = (data.*plain)();
    variant.change(norm, args, data);
    for (auto _ : state) run(norm, args);
    const std::size_t bytes = variant.matrices * data.x.flat().size_bytes();
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
  };
  benchmark::RegisterBenchmark(fmt::format("{}x{}/{}/{}", rows, cols, way, variant.name).c_str(),
                               loop)
      ->Unit(benchmark::kMicrosecond)
      ->UseRealTime();
}

void measure_shape(std::size_t rows, std::size_t cols) {
  for (const auto& variant : kForward) measure(rows, cols, "forward", variant, &Data::forward);
  for (const auto& variant : kBackward) measure(rows, cols, "backward", variant, &Data::backward);
}

}  // namespace
}  // namespace addnorm

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  addnorm::measure_shape(64, 768);
  addnorm::measure_shape(8192, 768);
  addnorm::measure_shape(8192, 4096);
  benchmark::RunSpecifiedBenchmarks();
}
