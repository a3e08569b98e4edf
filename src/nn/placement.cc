#include "addnorm/nn/placement.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "base/find_named.h"
#include "base/require.h"

namespace addnorm {
namespace {

using Form = ResidualFactor::Form;

double layer_scale(Depth depth) {
  if (depth.layers <= 18) return 0.1;
  return depth.layers <= 24 ? 1e-5 : 1e-6;
}

constexpr ResidualFactor kZero{.initial = {"0", [](Depth) { return 0.0; }}};

// Sources: post Vaswani et al. 2017; pre Xiong et al. 2020; sandwich Ding et al. 2021; reordered
// Liu et al. 2022 (Swin v2); deepnorm Wang et al. 2022; rezero Bachlechner et al. 2020; layerscale
// Touvron et al. 2021; depth-scaled Sun et al. 2025; admin Liu et al. 2020; scaled-branch Noci et
// al. 2022.
constexpr Placement kPlacements[] = {
    {.name = "none", .used_by = "ablation: a residual without a norm"},
    {.name = "plain", .used_by = "ablation: neither residual nor norm", .skip = kZero},
    {.name = "post", .used_by = "Transformer 2017, BERT", .after = Slot::kNorm},
    {.name = "pre", .used_by = "GPT-2, Llama", .before = Slot::kNorm, .final_norm = Slot::kNorm},
    {.name = "sandwich",
     .used_by = "Gemma 2 and 3, CogView",
     .before = Slot::kNorm,
     .inside = Slot::kNorm,
     .final_norm = Slot::kNorm},
    {.name = "reordered",
     .used_by = "OLMo 2, Swin v2",
     .inside = Slot::kNorm,
     .final_norm = Slot::kNorm},
    {.name = "deepnorm",
     .used_by = "DeepNet",
     .after = Slot::kNorm,
     .skip = {.initial = {"(2N)^1/4",
                          [](Depth d) { return std::pow(2.0 * double(d.layers), 0.25); }}},
     .initial_gain = {"(8N)^-1/4",
                      [](Depth d) { return std::pow(8.0 * double(d.layers), -0.25); }}},
    {.name = "rezero",
     .used_by = "ReZero",
     .gain = {Form::kLearnedScalar, {"0", [](Depth) { return 0.0; }}}},
    {.name = "layerscale",
     .used_by = "CaiT",
     .before = Slot::kNorm,
     .gain = {Form::kLearnedVector, {"0.1; 1e-5 from 19, 1e-6 from 25 layers", layer_scale}},
     .final_norm = Slot::kNorm},
    {.name = "depth-scaled",
     .used_by = "LayerNorm Scaling",
     .before = Slot::kNorm,
     .before_scale = {"1/sqrt(l)", [](Depth d) { return 1.0 / std::sqrt(double(d.layer)); }},
     .final_norm = Slot::kNorm},
    {.name = "admin",
     .used_by = "Admin",
     .after = Slot::kNorm,
     .skip = {Form::kLearnedVector, {"1, then profiled", [](Depth) { return 1.0; }}}},
    {.name = "scaled-branch",
     .used_by = "Noci et al.",
     .gain = {.initial = {"1/sqrt(L)", [](Depth d) { return 1.0 / std::sqrt(double(d.layers)); }}}},
};

}  // namespace

std::span<const Placement> placements() {
  return kPlacements;
}

const Placement& find_placement(std::string_view name) {
  return find_named(placements(), "placement", name);
}

namespace {

BlockPlacement parse_block(std::string_view block, std::string_view description) {
  const auto find = [&](std::string_view name) {
    require(!name.empty(),
            "placement \"{}\": a name is missing, must be such as post/pre or post:3+pre",
            description);
    return find_placement(name);
  };
  const std::size_t slash = block.find('/');
  const Placement attention = find(block.substr(0, slash));
  if (slash == std::string_view::npos) return {attention, attention};
  return {attention, find(block.substr(slash + 1))};
}

/// How many layers "post:3" is for; all that are left without a number.
std::size_t parse_count(std::string_view part, std::string_view description, std::size_t left) {
  const std::size_t colon = part.find(':');
  if (colon == std::string_view::npos) return left;
  std::size_t count = 0;
  const std::string_view digits = part.substr(colon + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  require(error == std::errc{} && end == digits.data() + digits.size() && count > 0,
          "placement \"{}\": \"{}\" is not a number of layers", description, digits);
  return count;
}

}  // namespace

std::vector<BlockPlacement> parse_placements(std::string_view description, std::size_t layers) {
  std::vector<BlockPlacement> result;
  std::string_view rest = description;
  for (std::size_t plus = 0; plus != std::string_view::npos && result.size() <= layers;) {
    plus = rest.find('+');
    const std::string_view part = rest.substr(0, plus);
    const BlockPlacement block = parse_block(part.substr(0, part.find(':')), description);
    const std::size_t left = std::max<std::size_t>(1, layers - std::min(layers, result.size()));
    const std::size_t count = std::min(parse_count(part, description, left), layers + 1);
    result.insert(result.end(), count, block);
    rest = rest.substr(std::min(rest.size(), plus + 1));
  }
  require(result.size() == layers, "placement \"{}\" is for {} layers than there are: {}",
          description, result.size() > layers ? "more" : "fewer", layers);
  return result;
}

}  // namespace addnorm
