#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace addnorm::model {

/// What names and places of tensors depend on.
struct Naming {
  std::string family;
  std::size_t heads = 1;     ///< of queries
  std::size_t kv_heads = 1;  ///< of keys and values
  std::size_t experts = 0;
  std::size_t d_fixed = 0,
              d_value = 0;  ///< of a head, where keys and values are projected together
  bool is_gguf = false;     ///< the names are those of GGUF files
};

/// Which rows of a tensor are a parameter's: of each of `groups` equal groups of rows, `own` of
/// `all` equal parts, behind `before` others. Several projections that are one tensor lie so. With
/// 0 groups each group has `all` rows: rows of several projections in turn.
struct TensorPart {
  std::size_t groups = 1, before = 0, own = 1, all = 1;

  bool fits(std::size_t rows) const { return rows % (std::max<std::size_t>(groups, 1) * own) == 0; }
  /// Rows of the tensor, where the parameter has `rows`.
  std::size_t whole(std::size_t rows) const { return rows / own * all; }
  /// Rows of the parameter that lie together.
  std::size_t run(std::size_t rows) const { return groups == 0 ? own : rows / groups; }
  /// The row of the tensor that is row r of the parameter's `rows`.
  std::size_t row(std::size_t r, std::size_t rows) const {
    const std::size_t part = run(rows) / own;
    return r / run(rows) * part * all + part * before + r % run(rows);
  }
};

/// How a parameter lies in a tensor.
struct TensorForm {
  bool transposed = false;  ///< in × out, GPT-2's way; the part is of columns then
  TensorPart part = {};
  std::size_t stack = 0;  ///< so many matrices, or vectors, one for each expert; 0: just one
};

/// Under which name a parameter may stand in a checkpoint, and how.
struct TensorName {
  std::string name;
  TensorForm form;
};

/// The names of our parameter `name` ("layers.3.attention.query.weight", "embedding.token",
/// "head.weight") in checkpoints of a family, of which the first that is there counts; none where
/// it has no such parameter.
std::vector<TensorName> tensor_names(const Naming& naming, const std::string& name);

}  // namespace addnorm::model
