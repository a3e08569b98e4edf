// Epilogues: quantized outputs, a gate and a modulation in the pass of a norm.

#include <cstdint>
#include <cstdio>
#include <vector>

#include "addnorm/norm.h"

using addnorm::BFloat16;
using addnorm::MatrixView;

constexpr std::size_t tokens = 8, d_model = 64, samples = 2;
constexpr addnorm::NormOptions norm{.kind = addnorm::NormKind::kRms, .epsilon = 1e-6};

int main() {
  std::vector<float> stream(tokens * d_model, 0.5F), f(tokens * d_model, 0.25F), z = f, h = f;
  std::vector<float> scale(samples * d_model, 1), shift(samples * d_model, -1);
  const std::vector<float> gamma(d_model, 1);
  stream[0] = 3;
  const MatrixView<float> s(stream.data(), tokens, d_model), branch(f.data(), tokens, d_model);

  // docs: int8
  std::vector<std::int8_t> q(tokens * d_model);
  std::vector<float> scales(tokens);
  addnorm::add_norm_forward<float>(
      norm, {.add = {.x = s, .branch = branch},
             .sum = s,
             .gamma = gamma,
             .epilogue = {.quantized = {.int8 = {q.data(), tokens, d_model},
                                        .scales = {scales.data(), tokens, 1}}}});
  // docs: end
  std::printf("int8 %d and %d of scale %.4f\n", q[0], q[1], scales[0]);

  // docs: q8_0
  std::vector<addnorm::Q8Block> blocks(tokens * d_model / 32);
  addnorm::add_norm_forward<float>(
      norm, {.add = {.x = s},
             .gamma = gamma,
             .epilogue = {.quantized = {.q8_0 = {blocks.data(), tokens, d_model / 32}}}});
  // docs: end
  std::printf("Q8_0 %d of scale %.4f\n", blocks[0].values[1], static_cast<float>(blocks[0].scale));

  // docs: gate
  addnorm::add_norm_forward<float>(norm,
                                   {.add = {.x = s},
                                    .gamma = gamma,
                                    .y = {h.data(), tokens, d_model},
                                    .epilogue = {.gate = {.z = {z.data(), tokens, d_model}}}});
  // docs: end
  std::printf("gate %.4f\n", h[d_model]);

  // docs: modulation
  addnorm::add_norm_forward<float>(
      {.epsilon = 1e-6}, {.add = {.x = s},
                          .y = {h.data(), tokens, d_model},
                          .epilogue = {.modulation = {.scale = {scale.data(), samples, d_model},
                                                      .shift = {shift.data(), samples, d_model}}}});
  // docs: end
  std::printf("modulation %.4f\n", h[0]);
}
