#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "addnorm/api.h"
#include "addnorm/nn/probe.h"

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

/// skip or gain of s = skip ⊙ x + gain ⊙ u: fixed, or learned from this value on.
struct ResidualFactor {
  enum class Form {
    kConstant,
    kLearnedScalar,
    kLearnedVector,
    kLearnedMagnitudes,  ///< |v| of a learned vector v
  };
  Form form = Form::kConstant;
  DepthFactor initial = {};
};

/// What stands in a slot for a norm.
enum class Slot {
  kNothing,
  kNorm,
  kUnit,  ///< x/‖x‖, without parameters
};

/// What u a sublayer adds to the stream, f being what it has computed and z what it has read of the
/// stream.
enum class Update {
  kBranch,      ///< f
  kDifference,  ///< f − z
  kGated,       ///< σ(W·z + b) ⊙ (f − z), W of d_model × d_model (Srivastava et al. 2015)
  kOrthogonal,  ///< f − ⟨f, z⟩/(⟨z, z⟩ + 1e-6)·z, in each row (Oh et al. 2025)
};

/// Whether the two sublayers of a layer follow each other, or stand side by side in one Add & Norm.
enum class Sublayers { kInTurn, kParallel };

/// Where a number of a stream of several lanes is used.
struct Place {
  Depth depth = {};
  SublayerKind sublayer = SublayerKind::kAttention;
  std::size_t lanes = 1;

  std::size_t site() const {  ///< how many sublayers stand before this one
    return 2 * (depth.layer - 1) + (sublayer == SublayerKind::kFeedForward);
  }
  std::size_t sites() const { return 2 * depth.layers; }
};

/// How the numbers of a mix are made, number (to, from):
///
///     map(base + scale·act(W·N(source)))
///
/// N divides by the root mean square, √(mean + 1e-6). Without a source a mix is map(base), the same
/// for all tokens. Behind a hidden layer (LaneForm::hidden) GELU(V·N(source)) stands for N(source).
struct MixForm {
  enum class Source {
    kNone,
    kStream,    ///< all lanes of a token, one after the other (mHC)
    kPrevious,  ///< the same, as the sublayer before this one has read them (single-pass mHC); the
                ///< first sublayer, which has none before it, reads the first lane alone
    kLane,      ///< the lane that a number reads, or writes to
    kLast,      ///< the last lane
  };
  enum class Act { kNone, kTanh };
  enum class Gate { kNone, kSigmoid };
  enum class Map {
    kNone,
    kSigmoid,
    kTwoSigmoid,    ///< 2σ
    kSoftmax,       ///< over the lanes that are read
    kSinkhorn,      ///< doubly stochastic, as DeepSeek-V4 computes it
    kPermutations,  ///< a softmax mixture of all permutations: doubly stochastic
  };

  std::string_view formula = "1";
  double (*base)(const Place&, std::size_t to, std::size_t from) = [](const Place&, std::size_t,
                                                                      std::size_t) { return 1.0; };
  /// Whether the base is learned from there on.
  bool (*learned)(const Place&, std::size_t to,
                  std::size_t from) = [](const Place&, std::size_t, std::size_t) { return false; };
  /// How the base is made of what is learned: σ(v) for kSigmoid, whose `base` is the first v.
  Gate gate = Gate::kNone;
  Source source = Source::kNone;
  /// Where the numbers are made of the source; elsewhere they are map(base).
  bool (*made)(const Place&) = [](const Place&) { return true; };
  Act act = Act::kNone;
  double scale = 1;  ///< learned from there on, unless it is 1
  Map map = Map::kNone;
};

/// Which lanes a sublayer changes.
enum class Changes {
  kAll,     ///< X′ = A·X + b ⊗ u
  kLast,    ///< the last one: x′ = x + u
  kAppend,  ///< none, but one more stands behind them: x′ = A·X + u, A of one row
};

/// The lanes of a stream: read, run, carry, write.
struct LaneForm {
  /// How many there are: the usual number unless another one from least to most is asked for. Where
  /// `grows`, the stream starts with one, and sublayers append others.
  std::size_t least = 1, usual = 1, most = 1;
  bool grows = false;
  /// The embedding's factor in each lane at the start.
  double (*enter)(std::size_t lane) = [](std::size_t) { return 1.0; };
  MixForm read = {};   ///< a
  MixForm carry = {};  ///< A
  MixForm write = {};  ///< b
  MixForm exit = {};   ///< c, which reads the stack's output
  Changes (*changes)(const Place&) = [](const Place&) { return Changes::kAll; };
  /// How many mixes of the lanes a sublayer reads, a row of a for each. Attention may read three:
  /// of the first it makes values, of the second keys, of the third queries. So the first is what
  /// passes through.
  std::size_t (*reads)(const Place&) = [](const Place&) { return std::size_t{1}; };
  /// Whether a sublayer's mixes are made behind a hidden layer, which has as many units as it makes
  /// numbers.
  bool hidden = false;
  /// Whether z is read from A·X, and not from X.
  bool reads_carried = false;
  /// Whether the lanes are parts of one stream's features, as are z and f.
  bool splits_features = false;
  /// R: the last lane goes through a norm before it is read, by sublayers and at the exit.
  Slot last_lane = Slot::kNothing, last_lane_at_exit = Slot::kNothing;

  bool several() const { return most > 1 || grows; }  ///< whether the stream has lanes at all
};

/// One arrangement of Add & Norm around a sublayer F, as data:
///
///     h = before(x);  f = inside(F(h)), dropout on f;  s = skip ⊙ x + gain ⊙ u;  y = after(s)
///
/// and for a stream of several lanes, X ∈ R^{n×d} for each token:
///
///     z = a·R(X);  h = before(z);  f = inside(F(h));  X′ = after(A·X + b ⊗ u)
///
/// where `after` is of the first lane, and z has a row for each mix that F reads, with a norm of
/// its own. AddNorm reads these fields and nothing else, so any row of one's own works as well.
struct Placement {
  std::string_view name = {};
  std::string_view used_by = {};
  std::string_view source = {};  ///< the paper, or where else it is described
  Slot before = Slot::kNothing;
  Slot inside = Slot::kNothing;
  Slot after = Slot::kNothing;
  ResidualFactor skip = {};
  ResidualFactor gain = {};
  Update update = Update::kBranch;
  DepthFactor before_scale = {};     ///< the output of `before` is multiplied with it
  DepthFactor inside_gamma = {};     ///< γ of `inside` at the start
  DepthFactor initial_gain = {};     ///< of F's value, output and feed-forward weights
  DepthFactor survival = {};         ///< in training u is 0 for whole sequences with probability
                                     ///< 1 − survival, and else divided by survival
  Slot entry = Slot::kNothing;       ///< of the embedding; with several lanes, of the first one
  Slot final_norm = Slot::kNothing;  ///< whether a stack of these ends with a norm
  Sublayers sublayers = Sublayers::kInTurn;
  LaneForm lanes = {};

  /// Whether a norm stands in one of the three slots of a sublayer.
  bool has_norm() const {
    return before != Slot::kNothing || inside != Slot::kNothing || after != Slot::kNothing;
  }
  /// Whether the five slots and constant or learned factors are all there is to it.
  bool is_plain() const;
};

/// Every row of the table, in the order of ARCHITECTURE.md.
ADDNORM_API std::span<const Placement> placements();

/// How many lanes a stream has before a sublayer of this placement: `asked`, where the placement
/// can have as many, or its usual number where that is 0. An Error elsewhere.
ADDNORM_API std::size_t starting_lanes(const Placement& placement, std::size_t asked);

/// The row with this name; an Error that lists the names if there is none.
ADDNORM_API const Placement& find_placement(std::string_view name);

/// Placements of the two sublayers of one block.
struct BlockPlacement {
  Placement attention = {};
  Placement feed_forward = {};
};

/// An arrangement whose sublayers or layers have different placements.
struct Mixture {
  std::string_view name = {};
  std::string_view used_by = {};
  std::string_view source = {};
  std::string_view formula = {};
  BlockPlacement (*block)(Depth) = nullptr;
};
/// Every mixture with a name.
ADDNORM_API std::span<const Mixture> mixtures();

/// One entry for each layer from a description:
///
///     "pre"            every sublayer; or the name of a mixture
///     "post/pre"       attention post, feed-forward pre
///     "post:3+pre"     the first 3 layers post, the rest pre
ADDNORM_API std::vector<BlockPlacement> parse_placements(std::string_view description,
                                                         std::size_t layers);

/// Calls body(placement, place) for each Add & Norm of a stack's first `layers` layers, in order,
/// of which those in parallel have one. The stream begins with `lanes`; the result is how many it
/// has then.
template <typename Body>
std::size_t for_each_add_norm(const std::vector<BlockPlacement>& placements, std::size_t lanes,
                              std::size_t layers, const Body& body) {
  Place place{.lanes = lanes};
  const auto visit = [&](const Placement& placement, SublayerKind sublayer) {
    place.sublayer = sublayer;
    body(placement, place);
    if (placement.lanes.changes(place) == Changes::kAppend) ++place.lanes;
  };
  for (std::size_t l = 0; l < layers; ++l) {
    place.depth = {l + 1, placements.size()};
    visit(placements[l].attention, SublayerKind::kAttention);
    if (placements[l].attention.sublayers == Sublayers::kParallel) continue;
    visit(placements[l].feed_forward, SublayerKind::kFeedForward);
  }
  return place.lanes;
}

/// How many lanes a stack's stream has before this layer, counted from 0, or behind the last one.
/// `asked` is as of starting_lanes().
ADDNORM_API std::size_t lanes_before(const std::vector<BlockPlacement>& placements,
                                     std::size_t asked, std::size_t layer);

}  // namespace addnorm
