#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace addnorm::model {

/// The properties of a model that the names and parts of its tensors depend on.
struct Naming {
  std::string family;
  std::size_t heads = 1;     ///< heads of queries
  std::size_t kv_heads = 1;  ///< heads of keys and values
  std::size_t experts = 0;
  std::size_t d_fixed = 0,
              d_value = 0;  ///< features of a head, if one projection makes keys and values
  bool is_gguf = false;     ///< the names are those of GGUF files
};

/// The rows of a tensor that belong to a parameter. Each of `groups` equal groups of rows has `all`
/// equal parts. The parameter has `own` of these, after `before` others. This describes several
/// projections in one tensor. With 0 groups each group has `all` rows: the rows of several
/// projections alternate.
struct TensorPart {
  std::size_t groups = 1, before = 0, own = 1, all = 1;

  bool fits(std::size_t rows) const { return rows % (std::max<std::size_t>(groups, 1) * own) == 0; }
  /// Returns the rows of the tensor if the parameter has `rows`.
  std::size_t whole(std::size_t rows) const { return rows / own * all; }
  /// Returns the number of the parameter's rows that are contiguous.
  std::size_t run(std::size_t rows) const { return groups == 0 ? own : rows / groups; }
  /// Returns the tensor's row for row r of the parameter's `rows`.
  std::size_t row(std::size_t r, std::size_t rows) const {
    const std::size_t part = run(rows) / own;
    return r / run(rows) * part * all + part * before + r % run(rows);
  }
};

/// The layout of a parameter in a tensor.
struct TensorForm {
  bool transposed = false;  ///< in × out, as in GPT-2; the part then selects columns
  TensorPart part = {};
  /// The number of stacked matrices or vectors, one for each expert; 0: not stacked.
  std::size_t stack = 0;
};

/// A name that a parameter may have in a checkpoint, and its layout there.
struct TensorName {
  std::string name;
  TensorForm form;
};

/// Returns the possible names of our parameter `name` ("layers.3.attention.query.weight",
/// "embedding.token", "head.weight") in checkpoints of a family; the first one present is used.
/// Empty if the family has no such parameter.
std::vector<TensorName> tensor_names(const Naming& naming, const std::string& name);

}  // namespace addnorm::model
