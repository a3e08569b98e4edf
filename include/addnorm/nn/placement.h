#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "addnorm/api.h"

namespace addnorm {

/// Where a sublayer stands: `layer` counts from 1 here, as l does in the papers.
struct Depth {
  std::size_t layer = 1;
  std::size_t layers = 1;
};

/// A number that may depend on depth: the formula that a person reads, and what computes it,
/// `double (*value)(Depth)`.
struct DepthFactor {
  std::string_view formula = "1";
  double (*value)(Depth) = [](Depth) { return 1.0; };
};

/// skip or gain of s = skip ⊙ x + gain ⊙ f: fixed, or learned from this value on.
struct ResidualFactor {
  enum class Form { kConstant, kLearnedScalar, kLearnedVector };
  Form form = Form::kConstant;
  DepthFactor initial = {};
};

/// What stands in a slot for a norm.
enum class Slot { kNothing, kNorm };

/// One arrangement of Add & Norm around a sublayer F, as data:
///
///     h = before(x);  f = inside(F(h)), dropout on f;  s = skip ⊙ x + gain ⊙ f;  y = after(s)
///
/// AddNorm reads these fields and nothing else, so any row of one's own works as well.
struct Placement {
  std::string_view name = {};
  std::string_view used_by = {};
  Slot before = Slot::kNothing;
  Slot inside = Slot::kNothing;
  Slot after = Slot::kNothing;
  ResidualFactor skip = {};
  ResidualFactor gain = {};
  DepthFactor before_scale = {};     ///< the output of `before` is multiplied with it
  DepthFactor initial_gain = {};     ///< of F's value, output and feed-forward weights
  Slot final_norm = Slot::kNothing;  ///< whether a stack of these ends with a norm

  /// Whether a norm stands in one of the three slots of a sublayer.
  bool has_norm() const {
    return before == Slot::kNorm || inside == Slot::kNorm || after == Slot::kNorm;
  }
};

/// Every row of the table, in the order of ARCHITECTURE.md.
ADDNORM_API std::span<const Placement> placements();

/// The row with this name; an Error that lists the names if there is none.
ADDNORM_API const Placement& find_placement(std::string_view name);

/// Placements of the two sublayers of one block.
struct BlockPlacement {
  Placement attention = {};
  Placement feed_forward = {};
};

/// One entry for each layer from a description:
///
///     "pre"            every sublayer
///     "post/pre"       attention post, feed-forward pre
///     "post:3+pre"     the first 3 layers post, the rest pre
ADDNORM_API std::vector<BlockPlacement> parse_placements(std::string_view description,
                                                         std::size_t layers);

}  // namespace addnorm
