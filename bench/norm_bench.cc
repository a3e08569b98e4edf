/// Speed of add_norm_forward and add_norm_backward, with and without the residual add, in bytes per
/// second: each matrix that must be read or written counts once. Beside them a plain copy.

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "addnorm/norm.h"
#include "base/matrix.h"
#include "base/parallel.h"
#include "base/torch_generator.h"

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

  Matrix<float> x, branch, sum, y;
  Matrix<float> gamma, beta, d_gamma, d_beta, workspace;
  std::vector<NormStatistics<float>> statistics;
};

void copy(const Matrix<float>& from, Matrix<float>& to) {
  const auto threads = static_cast<std::size_t>(omp_get_max_threads());
  const std::size_t part = (from.flat().size() + threads - 1) / threads;
  parallel_for(threads, 1, [&](std::size_t i) {
    const std::size_t begin = std::min(i * part, from.flat().size());
    const std::size_t end = std::min(begin + part, from.flat().size());
    std::copy(from.data() + begin, from.data() + end, to.data() + begin);
  });
}

void forward(NormKind kind, bool add, Data& data) {
  add_norm_forward<float>(
      {.kind = kind},
      {.add = {.x = data.x, .branch = add ? data.branch.view() : MatrixView<float>{}},
       .sum = add ? data.sum.view() : MatrixView<float>{},
       .gamma = data.gamma.flat(),
       .beta = data.beta.flat(),
       .y = data.y,
       .statistics = data.statistics});
}

void backward(NormKind kind, bool add, Data& data) {
  add_norm_backward<float>({.kind = kind},
                           {.s = data.x,
                            .statistics = data.statistics,
                            .gamma = data.gamma.flat(),
                            .dy = data.y,
                            .d_residual = add ? data.branch.view() : MatrixView<float>{},
                            .dx = data.sum,
                            .d_gamma = data.d_gamma.flat(),
                            .d_beta = data.d_beta.flat(),
                            .workspace = data.workspace.flat()});
}

/// Registers a benchmark of work(data), which moves so many matrices.
template <typename Work>
void measure(std::size_t rows, std::size_t cols, std::string_view name, std::size_t matrices,
             const Work& work) {
  auto run = [=](benchmark::State& state) {
    Data data(rows, cols);
    for (auto _ : state) work(data);
    const std::size_t bytes = matrices * data.x.flat().size_bytes();
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
  };
  benchmark::RegisterBenchmark(fmt::format("{}x{}/{}", rows, cols, name).c_str(), run)
      ->Unit(benchmark::kMicrosecond)
      ->UseRealTime();
}

void measure_shape(std::size_t rows, std::size_t cols) {
  measure(rows, cols, "copy of one", 2, [](Data& data) { copy(data.x, data.y); });
  measure(rows, cols, "copy of two", 4, [](Data& data) {
    copy(data.x, data.y);
    copy(data.branch, data.sum);
  });
  for (const bool add : {false, true}) {
    for (const NormKind kind : {NormKind::kLayer, NormKind::kRms}) {
      const std::string name =
          fmt::format("{}{}", add ? "add + " : "", kind == NormKind::kLayer ? "layer" : "rms");
      measure(rows, cols, name + " norm forward", add ? 4 : 2,
              [=](Data& data) { forward(kind, add, data); });
      measure(rows, cols, name + " norm backward", add ? 4 : 3,
              [=](Data& data) { backward(kind, add, data); });
    }
  }
}

}  // namespace
}  // namespace addnorm

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  addnorm::measure_shape(64, 768);
  addnorm::measure_shape(1024, 768);
  addnorm::measure_shape(8192, 768);
  addnorm::measure_shape(8192, 4096);
  benchmark::RunSpecifiedBenchmarks();
}
