/// One pre-norm Transformer block for block_vs_torch.py. For each line on stdin it clears the
/// gradients, goes forward and backward, and prints how many milliseconds that took.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <string_view>

#include "nn/block.h"
#include "nn/initialize.h"

namespace addnorm {
namespace {

void serve(FeedForwardKind feed_forward) {
  const BlockOptions options{
      .d_model = 768, .n_heads = 12, .d_ff = 3072, .feed_forward = feed_forward};
  const BlockPlacement placement = parse_placements("pre", 1).front();
  Scratch<float> scratch;
  const Pass<float> pass{.batch = 4, .length = 256, .scratch = &scratch};

  Block<float> block(options, placement, {});
  ParameterList<float> parameters;
  block.list_parameters("block", parameters);
  Matrix<float> x(pass.rows(), options.d_model);
  Matrix<float> dy(pass.rows(), options.d_model);
  Matrix<float> gradient(pass.rows(), options.d_model);
  TorchGenerator generator(0);
  initialize(block, placement, {}, Initialization::kTorch, generator);
  generator.fill_normal(x.flat());
  generator.fill_normal(dy.flat());

  for (std::string line; std::getline(std::cin, line);) {
    const auto start = std::chrono::steady_clock::now();
    zero_gradients(parameters);
    ResidualStream<float> stream(x);
    block.forward(stream, pass);
    stream.value();  // the last sum, which no norm has computed
    std::ranges::copy(dy.flat(), gradient.data());
    block.backward(gradient, pass);
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    fmt::print("{:.3f}\n", time.count());
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace addnorm

int main(int argc, char** argv) {
  const std::string_view activation = argc == 2 ? argv[1] : "";
  if (activation != "relu" && activation != "gelu") {
    fmt::print(stderr, "usage: block_bench relu|gelu\n");
    return 2;
  }
  using addnorm::FeedForwardKind;
  addnorm::serve(activation == "relu" ? FeedForwardKind::kRelu : FeedForwardKind::kGelu);
}
