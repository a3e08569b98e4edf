#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "model/tensor_names.h"

namespace addnorm::model {

/// A parameter's name in this library and in the files. Names within a layer follow the layer's
/// prefix.
struct Row {
  std::string_view ours;
  std::string_view theirs;
  bool transposed = false;
  TensorPart (*part)(const Naming&) = [](const Naming&) { return TensorPart{}; };
  bool of_experts = false;
};
using Rows = std::span<const Row>;

/// One of `all` projections of the same size, one after the other.
template <std::size_t index, std::size_t all>
TensorPart equal(const Naming&) {
  return {.before = index, .all = all};
}
/// Queries, keys and values one after the other, each with its number of heads.
inline TensorPart queries(const Naming& n) {
  return {.own = n.heads, .all = n.heads + 2 * n.kv_heads};
}
inline TensorPart keys(const Naming& n) {
  return {.before = n.heads, .own = n.kv_heads, .all = n.heads + 2 * n.kv_heads};
}
inline TensorPart values(const Naming& n) {
  return {.before = n.heads + n.kv_heads, .own = n.kv_heads, .all = n.heads + 2 * n.kv_heads};
}
/// A head's key without the rotated features, then its value.
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
/// Query, key and value of one head, then those of the next head.
template <std::size_t index>
TensorPart in_each_head(const Naming& n) {
  return {.groups = n.heads, .before = index, .all = 3};
}

/// The tensor names of a family. Any of the prefixes may precede every name.
struct Layout {
  std::string_view family;
  std::span<const std::string_view> prefixes;
  std::string_view layer;  ///< prefix of a layer's rows
  Rows of_layer;           ///< attention, or everything except the norms below
  Rows feed_forward;       ///< separate because several families share it
  Rows norms, others;
};

/// Returns the layouts of GGUF files.
std::span<const Layout> gguf_layouts();

}  // namespace addnorm::model
