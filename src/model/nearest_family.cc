#include "model/nearest_family.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <string_view>
#include <tuple>

#include "addnorm/error.h"
#include "addnorm/nn/block.h"
#include "model/recipe.h"

namespace addnorm::model {
namespace {

/// How many letters must be put in, taken out or replaced (Levenshtein 1966).
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

/// Our names of the first layer's parameters, from a block that is as small as its names allow.
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

/// How well a family explains a config.json and tensors.
struct Fit {
  std::string_view family;
  bool reads = false;      ///< whether it can read the config.json
  std::size_t named = 0;   ///< of the first layer's tensors, those that have its names
  std::size_t absent = 0;  ///< of its parameters, those that have no tensor
  std::size_t edits = 0;   ///< from the one name to the other

  /// The more the better.
  auto rank() const {
    const auto balance = static_cast<long>(named) - static_cast<long>(absent);
    return std::tuple(balance, reads, -static_cast<long>(edits));
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
      for (const std::string& theirs : tensor_names(recipe.naming(), ours).candidates) {
        if (!layer.contains(theirs)) continue;
        named.insert(theirs);
        found = true;
      }
      fit.absent += !found;
    }
    fit.named = named.size();
  } catch (const Error&) {  // it says something that this family cannot
  }
  return fit;
}

/// Whether the first number among a tensor's words is 0: "model.layers.0.mlp.experts.3.weight".
bool is_of_first_layer(std::string_view name) {
  while (!name.empty()) {
    const std::string_view word = name.substr(0, name.find('.'));
    if (word.find_first_not_of("0123456789") == std::string_view::npos) return word == "0";
    name.remove_prefix(std::min(word.size() + 1, name.size()));
  }
  return false;
}

}  // namespace

std::string nearest_family(const std::string& name, const std::string& json,
                           const std::vector<std::string>& tensors) {
  std::set<std::string> layer;
  std::ranges::copy_if(tensors, std::inserter(layer, layer.end()), is_of_first_layer);
  std::vector<Fit> fits;
  for (const std::string_view family : families()) {
    fits.push_back(fit_of(family, name, json, layer));
  }
  const Fit& best = *std::ranges::max_element(fits, {}, &Fit::rank);
  std::string why = "by its name";
  if (best.reads) why = "which can read this file";
  if (best.named > 0) {
    why = fmt::format("whose names {} of {} tensors of a layer have", best.named, layer.size());
  }
  return fmt::format(
      "the nearest is {}, {}: to try it, set model_type to \"{}\" in a copy of the folder",
      best.family, why, best.family);
}

}  // namespace addnorm::model
