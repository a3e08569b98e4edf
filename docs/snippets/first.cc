// Add & Norm of one row: s = x + f overwrites x, y = LayerNorm(s).

#include <cstdio>
#include <vector>

#include "addnorm/norm.h"

int main() {
  std::vector<float> x{1, 2, 3, 4}, y(4);
  const std::vector<float> f{0.5F, -1, 2, 0};
  const addnorm::MatrixView<float> stream(x.data(), 1, 4);  // rows and features
  addnorm::add_norm_forward<float>(
      {}, {.add = {.x = stream, .branch = {f.data(), 1, 4}}, .sum = stream, .y = {y.data(), 1, 4}});
  for (const float value : y) std::printf("%7.3f", value);
  std::printf("\n");
}
