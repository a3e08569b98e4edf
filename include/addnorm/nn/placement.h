#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "addnorm/api.h"
#include "addnorm/nn/probe.h"

namespace addnorm {

/// The depth of a sublayer; `layer` counts from 1, as l does in the papers.
struct Depth {
  std::size_t layer = 1;
  std::size_t layers = 1;
};

/// A number that may depend on depth: a formula for readers, and the function that computes it,
/// `double (*value)(Depth)`.
struct DepthFactor {
  std::string_view formula = "1";
  double (*value)(Depth) = [](Depth) { return 1.0; };
};

/// skip or gain of s = skip ⊙ x + gain ⊙ u: fixed, or learned from an initial value.
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

/// The content of a slot for a norm.
enum class Slot {
  kNothing,
  kNorm,
  kUnit,  ///< x/‖x‖, without parameters
};

/// The update u that a sublayer adds to the stream. f is the sublayer's output and z the part of
/// the stream that it read.
enum class Update {
  kBranch,      ///< f
  kDifference,  ///< f − z
  kGated,       ///< σ(W·z + b) ⊙ (f − z), W of d_model × d_model (Srivastava et al. 2015)
  kOrthogonal,  ///< f − ⟨f, z⟩/(⟨z, z⟩ + 1e-6)·z, in each row (Oh et al. 2025)
};

/// Whether the two sublayers of a layer follow each other or run in parallel in one Add & Norm.
enum class Sublayers { kInTurn, kParallel };

/// The place of a sublayer in a stack, for the numbers of a stream of several lanes.
struct Place {
  Depth depth = {};
  SublayerKind sublayer = SublayerKind::kAttention;
  std::size_t lanes = 1;

  std::size_t site() const {  ///< the number of sublayers before this one
    return 2 * (depth.layer - 1) + (sublayer == SublayerKind::kFeedForward);
  }
  std::size_t sites() const { return 2 * depth.layers; }
};

/// The computation of a mix's numbers, number (to, from):
///
///     map(base + scale·act(W·N(source)))
///
/// N divides by the root mean square, √(mean + 1e-6). Without a source a mix is map(base), the same
/// for all tokens. With a hidden layer (LaneForm::hidden) GELU(V·N(source)) replaces N(source).
struct MixForm {
  enum class Source {
    kNone,
    kStream,  ///< all lanes of a token, one after the other (mHC)
    /// The lanes as the sublayer before this one read them (single-pass mHC). The first sublayer
    /// reads the first lane alone.
    kPrevious,
    kLane,  ///< the lane that the number reads from, or writes to
    kLast,  ///< the last lane
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
  /// Whether the base is learned, starting from its value.
  bool (*learned)(const Place&, std::size_t to,
                  std::size_t from) = [](const Place&, std::size_t, std::size_t) { return false; };
  /// The map from the learned value v to the base: σ(v) for kSigmoid, whose `base` is the initial
  /// v.
  Gate gate = Gate::kNone;
  Source source = Source::kNone;
  /// Whether the numbers depend on the source. If not, they are map(base).
  bool (*made)(const Place&) = [](const Place&) { return true; };
  Act act = Act::kNone;
  double scale = 1;  ///< initial value of the learned scale; 1: not learned
  Map map = Map::kNone;
};

/// The lanes that a sublayer changes.
enum class Changes {
  kAll,     ///< X′ = A·X + b ⊗ u
  kLast,    ///< the last lane: x′ = x + u
  kAppend,  ///< none; a new last lane is x′ = A·X + u, A of one row
};

/// The lanes of a stream, and the mixes with which sublayers read and write them.
struct LaneForm {
  /// The number of lanes: `usual`, unless the caller chooses one between `least` and `most`. With
  /// `grows` the stream starts with one lane, and sublayers append others.
  std::size_t least = 1, usual = 1, most = 1;
  bool grows = false;
  /// The embedding's factor in each lane at the start.
  double (*enter)(std::size_t lane) = [](std::size_t) { return 1.0; };
  MixForm read = {};   ///< a
  MixForm carry = {};  ///< A
  MixForm write = {};  ///< b
  MixForm exit = {};   ///< c, the mix that gives the stack's output
  Changes (*changes)(const Place&) = [](const Place&) { return Changes::kAll; };
  /// The number of mixes that a sublayer reads, each with its row of a. Attention may read three:
  /// for values, keys and queries, in this order. The first mix is the one that passes through the
  /// sublayer.
  std::size_t (*reads)(const Place&) = [](const Place&) { return std::size_t{1}; };
  /// Whether a sublayer's mixes are computed with a hidden layer, which has as many units as the
  /// sublayer has numbers.
  bool hidden = false;
  /// Whether z is read from A·X instead of X.
  bool reads_carried = false;
  /// Whether the lanes, z and f are parts of one stream's features.
  bool splits_features = false;
  /// R: the last lane goes through a norm before sublayers and the exit read it.
  Slot last_lane = Slot::kNothing, last_lane_at_exit = Slot::kNothing;

  bool several() const { return most > 1 || grows; }  ///< whether the stream has lanes
};

/// One arrangement of Add & Norm around a sublayer F, as data:
///
///     h = before(x);  f = inside(F(h)), dropout on f;  s = skip ⊙ x + gain ⊙ u;  y = after(s)
///
/// and for a stream of several lanes, X ∈ R^{n×d} for each token:
///
///     z = a·R(X);  h = before(z);  f = inside(F(h));  X′ = after(A·X + b ⊗ u)
///
/// Here `after` normalizes the first lane. z has a row for each mix that F reads, with a norm of
/// its own. AddNorm reads only these fields, so users can define their own placements.
struct Placement {
  std::string_view name = {};
  std::string_view used_by = {};
  std::string_view source = {};  ///< the paper or another description
  Slot before = Slot::kNothing;
  Slot inside = Slot::kNothing;
  Slot after = Slot::kNothing;
  ResidualFactor skip = {};
  ResidualFactor gain = {};
  Update update = Update::kBranch;
  DepthFactor before_scale = {};  ///< factor of the output of `before`
  DepthFactor inside_gamma = {};  ///< initial γ of `inside`
  DepthFactor initial_gain = {};  ///< factor of F's value, output and feed-forward weights
  /// In training, u of a whole sequence is 0 with probability 1 − survival, else it is divided by
  /// survival.
  DepthFactor survival = {};
  Slot entry = Slot::kNothing;       ///< of the embedding; with several lanes, of the first lane
  Slot final_norm = Slot::kNothing;  ///< whether a stack of this placement ends with a norm
  Sublayers sublayers = Sublayers::kInTurn;
  LaneForm lanes = {};

  /// Whether one of the three slots of a sublayer has a norm.
  bool has_norm() const {
    return before != Slot::kNothing || inside != Slot::kNothing || after != Slot::kNothing;
  }
  /// Whether the five slots and constant or learned factors describe it completely.
  bool is_plain() const;
};

/// Returns every placement, in the order of docs/arrangements.md.
ADDNORM_API std::span<const Placement> placements();

/// Returns the number of lanes of a stream before a sublayer of this placement: `asked`, or the
/// usual number if that is 0. Throws an Error if the placement does not allow `asked`.
ADDNORM_API std::size_t starting_lanes(const Placement& placement, std::size_t asked);

/// Returns the row with this name. Throws an Error that lists the names if there is none.
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
/// Returns every mixture that has a name.
ADDNORM_API std::span<const Mixture> mixtures();

/// Returns one entry for each layer from a description:
///
///     "pre"            every sublayer; or the name of a mixture
///     "post/pre"       attention post, feed-forward pre
///     "post:3+pre"     the first 3 layers post, the rest pre
ADDNORM_API std::vector<BlockPlacement> parse_placements(std::string_view description,
                                                         std::size_t layers);

/// Calls body(placement, place) for each Add & Norm of a stack's first `layers` layers, in order.
/// Parallel sublayers share one Add & Norm. The stream begins with `lanes` lanes; returns its
/// number of lanes after these layers.
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

/// Returns the number of lanes of a stack's stream before this layer, counted from 0, or after the
/// last layer. `asked` is as for starting_lanes().
ADDNORM_API std::size_t lanes_before(const std::vector<BlockPlacement>& placements,
                                     std::size_t asked, std::size_t layer);

}  // namespace addnorm
