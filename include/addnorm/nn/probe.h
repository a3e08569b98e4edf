#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "addnorm/api.h"
#include "addnorm/names.h"
#include "addnorm/types.h"
#include "addnorm/view.h"

namespace addnorm {

/// The part of a Transformer that a probe observes. Layers count from 0.
enum class SublayerKind { kAttention, kFeedForward, kEmbedding, kFinalNorm, kHead };
constexpr std::array<std::string_view, 5> names_of(SublayerKind) {
  return {"attention", "feed_forward", "embedding", "final_norm", "head"};
}
enum class Point {
  kX,           ///< the residual stream that a sublayer reads
  kBefore,      ///< h = before(x)
  kBranch,      ///< F(h)
  kInside,      ///< f = inside(F(h))
  kSum,         ///< s = skip ⊙ x + gain ⊙ f
  kAfter,       ///< y = after(s)
  kMean,        ///< of a norm: one value for each row
  kDeviation,   ///< of a norm: one value for each row
  kNormalized,  ///< of a norm: x̂
  kOutput,      ///< the output of embedding, final norm or head
  kScores,      ///< attention's logits, queries × keys of a part of a head; −∞ for hidden keys
  kGamma,       ///< of a norm: its γ, as stored
  kBeta,        ///< of a norm: its β
  kWeight,      ///< of a projection
};
constexpr std::array<std::string_view, 14> names_of(Point) {
  return {"x",         "before",     "branch", "inside", "sum",   "after", "mean",
          "deviation", "normalized", "output", "scores", "gamma", "beta",  "weight"};
}
/// The slot of the norm to which a kMean, kDeviation, kNormalized, kGamma or kBeta belongs.
enum class NormSlot { kNone, kBefore, kInside, kAfter, kFinal };
constexpr std::array<std::string_view, 5> names_of(NormSlot) {
  return {"", "before", "inside", "after", "final"};
}
/// The linear map of a kWeight.
enum class Projection { kNone, kQuery, kKey, kValue, kOutput, kGate, kUp, kDown };
constexpr std::array<std::string_view, 8> names_of(Projection) {
  return {"", "query", "key", "value", "output", "gate", "up", "down"};
}

/// The origin of the values that a probe receives.
struct Site {
  std::size_t layer = 0;
  SublayerKind sublayer = SublayerKind::kAttention;
  Point point = Point::kX;
  NormSlot norm = NormSlot::kNone;
  Projection projection = Projection::kNone;
  /// For a sum, the lane of the stream. For an input of a sublayer that reads several mixes, the
  /// index of the mix.
  std::size_t lane = 0;

  /// Whether the site is within a layer, not before or after all layers.
  constexpr bool in_layer() const {
    return sublayer == SublayerKind::kAttention || sublayer == SublayerKind::kFeedForward;
  }
  bool operator==(const Site&) const = default;
};

/// Receives the values in forward and the gradients of the loss in backward. A view is valid only
/// during the call. Set Pass::probe to attach it; without a probe nothing extra is computed.
template <typename T>
class ADDNORM_API Probe {
  static_assert(check_value<T>());

 public:
  virtual ~Probe() = default;
  /// The values at a point.
  virtual void forward(const Site& site, MatrixView<const T> values) = 0;
  /// The gradients of the loss with respect to them.
  virtual void backward(const Site& site, MatrixView<const T> gradients) = 0;
  /// Whether attention computes its scores again for forward().
  virtual bool wants_scores() const { return false; }
};

}  // namespace addnorm
