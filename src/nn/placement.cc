#include "addnorm/nn/placement.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "base/find_named.h"
#include "base/require.h"

namespace addnorm {

bool Placement::is_plain() const {
  return !lanes.several() && update == Update::kBranch && sublayers == Sublayers::kInTurn &&
         inside != Slot::kUnit && after != Slot::kUnit && entry == Slot::kNothing &&
         survival.formula == "1" && inside_gamma.formula == "1";
}

const Placement& find_placement(std::string_view name) {
  return find_named(placements(), "placement", name);
}

std::size_t starting_lanes(const Placement& placement, std::size_t asked) {
  const LaneForm& form = placement.lanes;
  if (asked == 0) return form.usual;
  if (form.grows || (form.least <= asked && asked <= form.most)) return asked;
  const std::string lanes = form.least < form.most
                                ? fmt::format("from {} to {} lanes", form.least, form.most)
                                : fmt::format("{} lane{}", form.least, form.least == 1 ? "" : "s");
  fail(fmt::format("placement \"{}\" takes {}, not {}", placement.name, lanes, asked));
}

std::size_t lanes_before(const std::vector<BlockPlacement>& placements, std::size_t asked,
                         std::size_t layer) {
  const LaneForm& first = placements.front().attention.lanes;
  require(!first.grows || asked <= 1,
          "placement \"{}\" starts with 1 lane and appends others, not with {}",
          placements.front().attention.name, asked);
  return for_each_add_norm(placements, starting_lanes(placements.front().attention, asked), layer,
                           [](const Placement&, const Place&) {});
}

namespace {

/// Returns the block of a placement's or a mixture's name.
BlockPlacement named_block(std::string_view name, std::string_view description, Depth depth) {
  require(!name.empty(),
          "placement \"{}\": a name is missing; expected, for example, post/pre or post:3+pre",
          description);
  for (const Mixture& mixture : mixtures()) {
    if (mixture.name == name) return mixture.block(depth);
  }
  const Placement& placement = find_placement(name);
  return {placement, placement};
}

BlockPlacement parse_block(std::string_view block, std::string_view description, Depth depth) {
  const std::size_t slash = block.find('/');
  const BlockPlacement first = named_block(block.substr(0, slash), description, depth);
  if (slash == std::string_view::npos) return first;
  const BlockPlacement second = named_block(block.substr(slash + 1), description, depth);
  require(first.attention.sublayers == second.feed_forward.sublayers,
          "placement \"{}\": both sublayers stand side by side, or none", description);
  return {first.attention, second.feed_forward};
}

/// Returns the number of layers of "post:3"; without a number, all that are left.
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
    const std::size_t left = std::max<std::size_t>(1, layers - std::min(layers, result.size()));
    const std::size_t count = std::min(parse_count(part, description, left), layers + 1);
    for (std::size_t i = 0; i < count; ++i) {
      const Depth depth{std::min(result.size() + 1, layers), layers};
      result.push_back(parse_block(part.substr(0, part.find(':')), description, depth));
    }
    rest = rest.substr(std::min(rest.size(), plus + 1));
  }
  require(result.size() == layers, "placement \"{}\" is for {} layers than there are: {}",
          description, result.size() > layers ? "more" : "fewer", layers);
  return result;
}

}  // namespace addnorm
