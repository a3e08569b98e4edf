#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>

namespace addnorm::lab {

/// The numbers that document 000 prints ("Normalization & Residuals", parts 4 and 4b), after
/// torch.manual_seed(seed) in each part.
struct Reproduction {
  struct Moments {
    double mean = 0;
    double std = 0;  ///< unbiased
  };
  std::uint64_t seed = 0;
  Moments before;  ///< of the first token of randn(2, 4, 8)·10 + 5
  Moments after;   ///< of the same token after the document's LayerNorm
  std::array<std::size_t, 3> shape = {2, 10, 512};  ///< of the block's input and output
  double mean_abs_difference = 0;                   ///< of the block's output and input
  std::size_t parameters = 0;                       ///< of the block
};

/// Runs the document's LayerNorm and pre-norm block with this library. Any seed gives PyTorch's
/// numbers.
Reproduction reproduce(std::uint64_t seed);

/// {"seed", "layer_norm": {"before", "after"}, "block": {"shape", "mean_abs_difference", …}}
nlohmann::ordered_json to_json(const Reproduction& reproduction);

}  // namespace addnorm::lab
