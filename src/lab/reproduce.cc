#include "lab/reproduce.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>

#include "addnorm/nn/initialize.h"
#include "base/parallel.h"

namespace addnorm::lab {
namespace {

/// The document's LayerNorm divides by std + ε, with Tensor.std's n − 1.
constexpr NormOptions kDocumentNorm{
    .epsilon = 1e-6, .epsilon_at = EpsilonAt::kDeviation, .variance = Variance::kUnbiased};

Reproduction::Moments moments(std::span<const float> values) {
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, std::sqrt(squares / (n - 1))};
}

void reproduce_layer_norm(Reproduction& result) {
  TorchGenerator generator(result.seed);
  Matrix<float> x(2 * 4, 8);
  generator.fill_normal(x.flat());
  for (float& value : x.flat()) value = value * 10 + 5;
  result.before = moments(x.view().row(0));
  add_norm_forward<float>(kDocumentNorm, {.add = {.x = x}, .y = x});
  result.after = moments(x.view().row(0));
}

void reproduce_block(Reproduction& result) {
  TorchGenerator generator(result.seed);
  const auto [batch, length, d_model] = result.shape;
  const BlockPlacement pre{find_placement("pre"), find_placement("pre")};
  Block<float> block({.d_model = d_model,
                      .n_heads = 8,
                      .d_ff = 2048,
                      .feed_forward = FeedForwardKind::kRelu,
                      .norm = kDocumentNorm},
                     pre, {});
  initialize(block, pre, {}, Initialization::kTorch, generator);
  Matrix<float> x(batch * length, d_model);
  generator.fill_normal(x.flat());

  ResidualStream<float> stream(x);
  Scratch<float> scratch;
  block.forward(stream,
                {.batch = batch, .length = length, .mode = Mode::kEvaluation, .scratch = &scratch});

  const MatrixView<const float> y = stream.value();
  double sum = 0;
  for (std::size_t r = 0; r < y.rows; ++r) {
    for (std::size_t i = 0; i < y.cols; ++i) sum += std::abs(y(r, i) - x(r, i));
  }
  result.mean_abs_difference = sum / static_cast<double>(y.size());
  ParameterList<float> parameters;
  block.list_parameters("block", parameters);
  result.parameters = count_parameters(parameters);
}

}  // namespace

Reproduction reproduce(std::uint64_t seed) {
  Reproduction result{.seed = seed};
  // One job runs on one thread, so the bits do not depend on the number of threads.
  parallel_jobs(1, [&](std::size_t) {
    reproduce_layer_norm(result);
    reproduce_block(result);
  });
  return result;
}

nlohmann::ordered_json to_json(const Reproduction& reproduction) {
  using Json = nlohmann::ordered_json;
  auto moments_json = [](const Reproduction::Moments& m) -> Json {
    return {{"mean", m.mean}, {"std", m.std}};
  };
  return {{"seed", reproduction.seed},
          {"layer_norm",
           {{"before", moments_json(reproduction.before)},
            {"after", moments_json(reproduction.after)}}},
          {"block",
           {{"shape", reproduction.shape},
            {"mean_abs_difference", reproduction.mean_abs_difference},
            {"parameters", reproduction.parameters}}}};
}

}  // namespace addnorm::lab
