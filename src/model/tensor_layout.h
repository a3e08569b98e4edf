#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "model/tensor_names.h"

namespace addnorm::model {

/// A parameter's name here and there; within a layer both begin behind the layer's own prefix.
struct Row {
  std::string_view ours;
  std::string_view theirs;
  bool transposed = false;
  TensorPart (*part)(const Naming&) = [](const Naming&) { return TensorPart{}; };
  bool of_experts = false;
};
using Rows = std::span<const Row>;

/// One of `all` projections of the same size, one behind the other.
template <std::size_t index, std::size_t all>
TensorPart equal(const Naming&) {
  return {.before = index, .all = all};
}
/// Queries, keys and values behind each other, of so many heads each.
inline TensorPart queries(const Naming& n) {
  return {.own = n.heads, .all = n.heads + 2 * n.kv_heads};
}
inline TensorPart keys(const Naming& n) {
  return {.before = n.heads, .own = n.kv_heads, .all = n.heads + 2 * n.kv_heads};
}
inline TensorPart values(const Naming& n) {
  return {.before = n.heads + n.kv_heads, .own = n.kv_heads, .all = n.heads + 2 * n.kv_heads};
}
/// A head's key without what turns, then its value.
inline TensorPart fixed_keys(const Naming& n) {
  return {.groups = n.heads, .own = n.d_fixed, .all = n.d_fixed + n.d_value};
}
inline TensorPart latent_values(const Naming& n) {
  return {.groups = n.heads, .before = n.d_fixed, .own = n.d_value, .all = n.d_fixed + n.d_value};
}
/// Every second row.
template <std::size_t index>
TensorPart in_turn(const Naming&) {
  return {.groups = 0, .before = index, .all = 2};
}
/// Query, key and value of one head, then those of the next.
template <std::size_t index>
TensorPart in_each_head(const Naming& n) {
  return {.groups = n.heads, .before = index, .all = 3};
}

/// How a family names its tensors. Each of the prefixes may stand before every name.
struct Layout {
  std::string_view family;
  std::span<const std::string_view> prefixes;
  std::string_view layer;  ///< before the names of a layer's rows
  Rows of_layer;           ///< attention, or all but the norms below
  Rows feed_forward;       ///< where several families have the same one
  Rows norms, others;
};

/// Those of GGUF files.
std::span<const Layout> gguf_layouts();

}  // namespace addnorm::model
