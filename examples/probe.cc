// A custom probe for a post-norm and a pre-norm stack at initialization. It compares the size of
// each sublayer's branch with that of the residual stream, and measures the gradient of the
// sublayer's input. The program needs only the public headers.

#include <cmath>
#include <cstdio>

#include "addnorm/nn/initialize.h"
#include "addnorm/nn/stack.h"

using namespace addnorm;

constexpr std::size_t d_model = 64, n_layers = 6;
constexpr std::size_t batch = 4, length = 16;

float rms(MatrixView<const float> values) {
  double sum = 0;
  for (std::size_t r = 0; r < values.rows; ++r) {
    for (const float v : values.row(r)) sum += double{v} * v;
  }
  return static_cast<float>(std::sqrt(sum / static_cast<double>(values.size())));
}

/// Stores the sizes of stream, branch and gradient for each layer's feed-forward sublayer.
class WriteSizes : public Probe<float> {
 public:
  void forward(const Site& site, MatrixView<const float> values) override {
    if (site.sublayer != SublayerKind::kFeedForward) return;
    if (site.point == Point::kX) stream[site.layer] = rms(values);
    if (site.point == Point::kBranch) branch[site.layer] = rms(values);
  }
  void backward(const Site& site, MatrixView<const float> gradients) override {
    if (site.sublayer != SublayerKind::kFeedForward) return;
    if (site.point == Point::kX) gradient[site.layer] = rms(gradients);
  }

  float stream[n_layers] = {}, branch[n_layers] = {}, gradient[n_layers] = {};
};

WriteSizes measure(const char* placement) {
  const std::vector<BlockPlacement> placements = parse_placements(placement, n_layers);
  Stack<float> stack({.d_model = d_model, .n_heads = 4, .d_ff = 4 * d_model}, placements);
  TorchGenerator generator(0);
  for (std::size_t l = 0; l < n_layers; ++l) {
    initialize(stack.blocks()[l], placements[l], {l + 1, n_layers}, Initialization::kXavier,
               generator);
  }
  Matrix<float> x(batch * length, d_model), y(batch * length, d_model), dy(batch * length, d_model);
  generator.fill_normal(x.flat());
  generator.fill_normal(dy.flat());

  WriteSizes sizes;
  Scratch<float> scratch;
  const Pass<float> pass{.batch = batch, .length = length, .scratch = &scratch, .probe = &sizes};
  stack.forward(x, y, pass);
  stack.backward(dy, dy, pass);
  return sizes;
}

int main() {
  for (const char* placement : {"post", "pre"}) {
    const WriteSizes sizes = measure(placement);
    std::printf("%-5s layer  stream  written  gradient\n", placement);
    for (std::size_t l = 0; l < n_layers; ++l) {
      std::printf("%11zu %7.2f  %6.0f%%  %8.3f\n", l + 1, sizes.stream[l],
                  100 * sizes.branch[l] / sizes.stream[l], sizes.gradient[l]);
    }
  }
}
