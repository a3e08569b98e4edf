#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace addnorm::model {

/// Under which names a parameter may stand in a checkpoint, and how it lies there.
struct TensorNames {
  std::vector<std::string> candidates;  ///< the first that is there counts
  bool transposed = false;              ///< in × out, GPT-2's way
  std::size_t part = 0;                 ///< of `parts` equal ones of the output's dimension
  std::size_t parts = 1;
};

/// The names of our parameter `name` ("layers.3.attention.query.weight", "embedding.token",
/// "head.weight") in checkpoints of a family; no candidates where it has no such parameter.
TensorNames tensor_names(std::string_view family, const std::string& name);

}  // namespace addnorm::model
