#include "model/nearest_family.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <vector>

#include "addnorm/error.h"
#include "addnorm/nn/block.h"
#include "model/recipe.h"
#include "model/unknown_parts.h"

namespace addnorm::model {
namespace {

/// Returns the number of inserted, deleted or replaced letters (Levenshtein 1966).
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

/// Returns our names of the first layer's parameters, from a block as small as its names allow.
std::vector<std::string> names_of_layer(const Recipe& recipe) {
  BlockOptions options = recipe.layer_options(0);
  options.n_heads = options.attention.n_kv_heads = 1;
  options.d_model = options.d_ff = 2;
  options.attention.d_head = 2;
  options.attention.rope.clear();
  Block<float> block(options, recipe.placements.front(), {1, recipe.layers()});
  ParameterList<float> list;
  block.list_parameters("layers.0", list);
  std::vector<std::string> names;
  for (const auto& [name, parameter] : list) names.push_back(name);
  return names;
}

/// The agreement of a family with a config.json and tensors.
struct Fit {
  std::string_view family;
  bool reads = false;      ///< whether it can read the config.json
  std::size_t named = 0;   ///< number of layers' tensors that have its names
  std::size_t absent = 0;  ///< number of its parameters without a tensor
  std::size_t edits = 0;   ///< edit distance of the two names

  /// Returns the rank; larger is better.
  auto rank() const {
    const auto balance = static_cast<long>(named) - static_cast<long>(absent);
    return std::tuple(reads, balance, -static_cast<long>(edits));
  }
};

Fit fit_of(std::string_view family, const std::string& name, const std::string& json,
           const std::set<std::string>& layer) {
  Fit fit{.family = family, .edits = edits(name, family)};
  try {
    const Recipe recipe = parse_recipe_as(family, json, "config.json");
    fit.reads = true;
    if (layer.empty()) return fit;
    std::set<std::string> named;
    for (const std::string& ours : names_of_layer(recipe)) {
      bool found = false;
      for (const TensorName& theirs : tensor_names(recipe.naming(), ours)) {
        if (!layer.contains(theirs.name)) continue;
        named.insert(theirs.name);
        found = true;
      }
      fit.absent += !found;
    }
    fit.named = named.size();
  } catch (const Error&) {  // a value that this family does not support
  }
  return fit;
}

/// Returns the name of a layer's tensor as in the first layer: the first number, that of the layer,
/// becomes 0, as in "model.layers.3.mlp.experts.5.weight". Nothing for a tensor outside layers.
std::optional<std::string> in_first_layer(const std::string& name) {
  for (std::size_t begin = 0; begin < name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string word = name.substr(begin, end - begin);
    if (!word.empty() && word.find_first_not_of("0123456789") == std::string::npos) {
      return name.substr(0, begin) + "0" + name.substr(end);
    }
    begin = end + 1;
  }
  return std::nullopt;
}

}  // namespace

std::string nearest_family(const std::string& name, const std::string& json,
                           const std::vector<std::string>& tensors) {
  std::set<std::string> layer;  // the union of all kinds of layers
  for (const std::string& tensor : tensors) {
    if (const std::optional<std::string> own = in_first_layer(tensor)) layer.insert(*own);
  }
  std::vector<Fit> fits;
  for (const std::string_view family : families()) {
    fits.push_back(fit_of(family, name, json, layer));
  }
  const Fit& best = *std::ranges::max_element(fits, {}, &Fit::rank);
  std::string why = "by its name";
  if (best.reads) why = "which can read this config";
  if (best.named > 0) {
    why =
        fmt::format("which has the names of {} of a layer's {} tensors", best.named, layer.size());
  }
  const std::string nearest = fmt::format("the nearest is {}, {}", best.family, why);
  const std::vector<std::string_view> parts = unknown_parts(json, tensors);
  if (!parts.empty()) {
    return fmt::format("it has {}, not supported here; {}", fmt::join(parts, " and "), nearest);
  }
  return fmt::format("{}: to try it, set model_type to \"{}\" in a copy of the folder", nearest,
                     best.family);
}

}  // namespace addnorm::model
