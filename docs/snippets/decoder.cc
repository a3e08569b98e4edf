// A decoder with different placements in the first layers and the rest.

#include <cstdio>

#include "addnorm/nn/decoder.h"
#include "addnorm/nn/initialize.h"

using namespace addnorm;

int main() {
  // docs: decoder
  Decoder<float> decoder({.block = {.d_model = 64, .n_heads = 4, .d_ff = 256},
                          .placements = parse_placements("post:3+pre", 12),  // any row, any layer
                          .context = 64});
  TorchGenerator generator(0);
  initialize(decoder, Initialization::kTorch, generator);
  // docs: end
  std::printf("%zu parameters\n", count_parameters(decoder.parameters()));
}
