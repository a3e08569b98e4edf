// The C++ code that README.md shows.

#include <cstdio>
#include <vector>

#include "addnorm/layer_norm.h"

using namespace addnorm;

constexpr std::size_t rows = 2, features = 4;

int main() {
  std::vector<float> stream{1, 2, 3, 4, 4, 3, 2, 1}, branch(8, 0.5F), output(8);
  const std::vector<float> gamma(4, 1), beta(4, 0);

  const MatrixView<float> x(stream.data(), rows, features);  // your own memory
  const MatrixView<float> f(branch.data(), rows, features), h(output.data(), rows, features);
  add_layer_norm(x, f, gamma, beta, x, h);  // x += f, h = LayerNorm(x)

  std::printf("%.1f %.3f\n", x(1, 0), h(1, 0));
}
