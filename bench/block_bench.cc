/// Measures one pre-norm Transformer block for block_vs_torch.py. For each line on stdin it clears
/// the gradients, runs forward and backward, and prints the milliseconds of both, and those of the
/// linear layers' products alone.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "addnorm/nn/block.h"
#include "addnorm/nn/initialize.h"
#include "gemm/gemm.h"
#include "stopwatch.h"

namespace addnorm {
namespace {

/// y = x·Wᵀ, dx = dy·W, dW = dyᵀ·x for each of the block's six linear layers.
template <typename T>
class Products {
 public:
  Products(std::size_t rows, const BlockOptions& o) {
    for (int i = 0; i < 4; ++i) layers_.emplace_back(rows, o.d_model, o.d_model);
    layers_.emplace_back(rows, o.d_model, o.d_ff);
    layers_.emplace_back(rows, o.d_ff, o.d_model);
  }

  void run() {
    for (Layer& l : layers_) {
      gemm::gemm<T>({.a = l.x, .b = l.w, .transpose_b = gemm::Transpose::kYes, .c = l.y});
      gemm::gemm<T>({.a = l.y, .b = l.w, .c = l.x});
      gemm::gemm<T, Arithmetic<T>>(
          {.a = l.y, .transpose_a = gemm::Transpose::kYes, .b = l.x, .c = l.dw});
    }
  }

 private:
  struct Layer {
    Matrix<T> x, w, y;
    Matrix<Arithmetic<T>> dw;
    Layer(std::size_t rows, std::size_t in, std::size_t out)
        : x(rows, in), w(out, in), y(rows, out), dw(out, in) {}
  };
  std::vector<Layer> layers_;
};

struct Sizes {
  std::size_t batch, length, d_model, n_heads;
};

template <typename T>
void serve(FeedForwardKind feed_forward, const Sizes& sizes) {
  using Value = Arithmetic<T>;
  const BlockOptions options{.d_model = sizes.d_model,
                             .n_heads = sizes.n_heads,
                             .d_ff = 4 * sizes.d_model,
                             .feed_forward = feed_forward};
  const BlockPlacement placement = parse_placements("pre", 1).front();
  Scratch<T> scratch;
  const Pass<T> pass{.batch = sizes.batch, .length = sizes.length, .scratch = &scratch};

  Block<T> block(options, placement, {});
  ParameterList<Value> parameters;
  block.list_parameters("block", parameters);
  Matrix<Value> x(pass.rows(), options.d_model);
  Matrix<Value> dy(pass.rows(), options.d_model);
  Matrix<Value> gradient(pass.rows(), options.d_model);
  TorchGenerator generator(0);
  initialize(block, placement, {}, Initialization::kTorch, generator);
  generator.fill_normal(x.flat());
  generator.fill_normal(dy.flat());
  Products<T> products(pass.rows(), options);

  for (std::string line; std::getline(std::cin, line);) {
    const double of_block = milliseconds([&] {
      zero_gradients(parameters);
      ResidualStream<T> stream(x);
      block.forward(stream, pass);
      stream.value();  // the last sum, which no norm computes
      std::ranges::copy(dy.flat(), gradient.data());
      block.backward(gradient, pass);
    });
    fmt::print("{:.3f} {:.3f}\n", of_block, milliseconds([&] { products.run(); }));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace addnorm

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() != 6 || (words[0] != "relu" && words[0] != "gelu") ||
      (words[1] != "f32" && words[1] != "bf16")) {
    fmt::print(stderr, "usage: block_bench relu|gelu f32|bf16 BATCH LENGTH D_MODEL HEADS\n");
    return 2;
  }
  using addnorm::FeedForwardKind;
  const auto kind = words[0] == "relu" ? FeedForwardKind::kRelu : FeedForwardKind::kGelu;
  const addnorm::Sizes sizes{std::stoul(words[2]), std::stoul(words[3]), std::stoul(words[4]),
                             std::stoul(words[5])};
  if (words[1] == "f32") {
    addnorm::serve<float>(kind, sizes);
  } else {
    addnorm::serve<addnorm::BFloat16>(kind, sizes);
  }
}
