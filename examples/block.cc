// One Transformer block in C++, with initial weights from PyTorch's distributions.

#include <cmath>
#include <cstdio>

#include "addnorm/nn/initialize.h"

using namespace addnorm;

constexpr std::size_t d_model = 512;
constexpr std::size_t n_heads = 8;
constexpr std::size_t d_ff = 2048;
constexpr std::size_t batch = 2, length = 10;
constexpr bool causal = false;

// Divides by the unbiased deviation + epsilon. The default, {}, divides by √(variance + 1e-5).
constexpr NormOptions norm{
    .epsilon = 1e-6, .epsilon_at = EpsilonAt::kDeviation, .variance = Variance::kUnbiased};

int main() {
  const Placement& placement = find_placement("pre");
  const BlockPlacement placements{placement, placement};
  Block<float> block({.d_model = d_model,
                      .n_heads = n_heads,
                      .d_ff = d_ff,
                      .feed_forward = FeedForwardKind::kRelu,
                      .norm = norm},
                     placements, {});
  TorchGenerator generator(0);
  initialize(block, placements, {}, Initialization::kTorch, generator);

  Matrix<float> x(batch * length, d_model);
  generator.fill_normal(x.flat());

  ResidualStream<float> stream(x);
  Scratch<float> scratch;
  const auto order = causal ? AttentionMask::Order::kCausal : AttentionMask::Order::kAny;
  block.forward(stream,
                {.batch = batch, .length = length, .mask = {.order = order}, .scratch = &scratch});
  const MatrixView<const float> y = stream.value();

  double difference = 0;
  for (std::size_t r = 0; r < y.rows; ++r) {
    for (std::size_t i = 0; i < y.cols; ++i) difference += std::abs(y(r, i) - x(r, i));
  }
  ParameterList<float> parameters;
  block.list_parameters("block", parameters);

  std::printf("shape       %zu x %zu x %zu\n", batch, length, d_model);
  std::printf("parameters  %zu\n", count_parameters(parameters));
  std::printf("mean |y-x|  %.4f\n", difference / static_cast<double>(y.size()));
}
