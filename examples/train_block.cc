// Two pre-norm Transformer blocks learn to find the marked token of a sequence and to output it at
// every position. They use a custom loss. The program needs only the public headers.

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "addnorm/nn/initialize.h"
#include "addnorm/nn/stack.h"
#include "addnorm/train/adamw.h"

using namespace addnorm;

constexpr std::size_t d_model = 32;
constexpr std::size_t batch = 32, length = 8;  // rows of every matrix are tokens: batch × length

/// Makes a batch of normal features. In each sequence one random token is marked: its first feature
/// is 2, and that of the others is 0. The marked token is the target at all positions.
void draw(TorchGenerator& generator, Matrix<float>& x, Matrix<float>& target) {
  generator.fill_normal(x.flat());
  for (std::size_t b = 0; b < batch; ++b) {
    const std::size_t marked = b * length + generator.random() % length;
    for (std::size_t r = b * length; r < (b + 1) * length; ++r) {
      x(r, 0) = r == marked ? 2 : 0;
      std::ranges::copy(x.view().row(marked), target.view().row(r).begin());
    }
  }
}

/// Computes Huber's loss, as a mean over all values, and its gradient.
double huber(const Matrix<float>& y, const Matrix<float>& target, Matrix<float>& dy) {
  double sum = 0;
  const auto n = static_cast<float>(y.flat().size());
  for (std::size_t i = 0; i < y.flat().size(); ++i) {
    const float error = y.flat()[i] - target.flat()[i];
    const float size = std::abs(error);
    sum += size < 1 ? error * error / 2 : size - 0.5F;
    dy.flat()[i] = std::clamp(error, -1.0F, 1.0F) / n;
  }
  return sum / n;
}

int main() {
  const std::vector<BlockPlacement> placements = parse_placements("pre", 2);
  Stack<float> stack({.d_model = d_model, .n_heads = 4, .d_ff = 4 * d_model}, placements,
                     FinalNorm::kNo);
  TorchGenerator generator(0);
  for (std::size_t l = 0; l < placements.size(); ++l) {
    initialize(stack.blocks()[l], placements[l], {l + 1, placements.size()}, Initialization::kTorch,
               generator);
  }
  ParameterList<float> parameters;
  stack.list_parameters("", parameters);
  AdamW<float> optimizer(parameters, {});

  Scratch<float> scratch;
  const Pass<float> pass{.batch = batch, .length = length, .scratch = &scratch};
  Matrix<float> x(batch * length, d_model), y(x.rows(), d_model), target(x.rows(), d_model);
  Matrix<float> gradient(x.rows(), d_model);
  for (int step = 0; step <= 300; ++step) {
    draw(generator, x, target);
    stack.forward(x, y, pass);
    const double loss = huber(y, target, gradient);
    if (step % 50 == 0) std::printf("step %3d  loss %.3f\n", step, loss);

    zero_gradients(parameters);
    stack.backward(gradient, gradient, pass);
    optimizer.step(3e-3);
  }
}
