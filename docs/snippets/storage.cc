// A residual stream in float32 with branches in bfloat16, and rows with a stride.

#include <cstdio>
#include <vector>

#include "addnorm/norm.h"

using addnorm::BFloat16;
using addnorm::MatrixView;

constexpr std::size_t tokens = 8, d_model = 64;

int main() {
  std::vector<float> stream(tokens * d_model, 0.5F);
  const std::vector<float> gamma(d_model, 1);
  std::vector<BFloat16> attention(tokens * d_model, BFloat16(0.25F));
  std::vector<BFloat16> h(tokens * d_model);
  stream[0] = 3;

  // docs: bfloat16
  const MatrixView<float> s(stream.data(), tokens, d_model);
  addnorm::add_norm_forward<float, BFloat16>(
      {.kind = addnorm::NormKind::kRms, .epsilon = 1e-6},
      {.add = {.x = s, .branch = {attention.data(), tokens, d_model}},
       .sum = s,                            // float32: the sum is not rounded to 8 bits
       .gamma = gamma,                      // float32, like all computations
       .y = {h.data(), tokens, d_model}});  // rounded once, to nearest even
  // docs: end

  // docs: strides
  std::vector<float> wide(tokens * 2 * d_model);
  const MatrixView<float> whole(wide.data(), tokens, 2 * d_model);
  const MatrixView<float> right = whole.block(0, d_model, tokens, d_model);
  addnorm::add_norm_forward<float>({}, {.add = {.x = s}, .y = right});  // the left half stays
  // docs: end

  std::printf("s %.2f and %.2f, h %.3f, left %.0f, right %.3f\n", s(0, 0), s(1, 0),
              static_cast<float>(h[d_model]), whole(0, 0), whole(0, d_model));
}
