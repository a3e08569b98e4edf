#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "addnorm/nn/decoder.h"
#include "addnorm/torch_generator.h"

namespace addnorm {

enum class Initialization {
  /// PyTorch's nn.Linear: weight and bias uniform in ±1/√in; nn.Embedding: N(0, 1).
  kTorch,
  /// Weights uniform in ±√(6/(in + out)) (Glorot and Bengio 2010), biases 0. Each embedding is N(0,
  /// 1/2), so the stream starts with variance 1. With the placement "deepnorm", whose initial_gain
  /// is (8N)^-1/4, this is DeepNorm's initialization.
  kXavier,
  /// N(0, 0.02²), biases 0, projections into the stream N(0, 0.02²/(2N)) (Radford et al. 2019).
  kGpt2,
};

constexpr std::array<std::string_view, 3> names_of(Initialization) {
  return {"torch", "xavier", "gpt2"};
}
inline constexpr Initialization kInitializations[] = {
    Initialization::kTorch, Initialization::kXavier, Initialization::kGpt2};

/// Draws a layer's weight, then its bias.
template <typename T>
ADDNORM_API void initialize(Linear<T>& linear, Initialization initialization,
                            TorchGenerator& generator, double gain = 1);

/// Draws query, key, value, output, up, (gate,) down, then the gates of highways and the hidden
/// layers of lanes' mixes of both Add & Norms. The placements' initial_gain scales value, output
/// and the feed-forward weights.
template <typename T>
ADDNORM_API void initialize(Block<T>& block, const BlockPlacement& placement, Depth depth,
                            Initialization initialization, TorchGenerator& generator);

/// Draws token and position embeddings, the blocks, a hidden layer of the exit's mix, the head.
template <typename T>
ADDNORM_API void initialize(Decoder<T>& decoder, Initialization initialization,
                            TorchGenerator& generator);

/// Admin's profiling (Liu et al. 2020, section 4.2). Sets each learned skip vector to ω_i =
/// √(Var[x_0] + Σ_{j<i} Var[f_j]) from one forward of `tokens` with ω = 1. Sublayers without a
/// learned skip are unchanged.
template <typename T>
ADDNORM_API void initialize_admin(Decoder<T>& decoder, std::span<const std::int32_t> tokens,
                                  std::size_t batch);

}  // namespace addnorm
