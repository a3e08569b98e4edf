#pragma once

#include <cstddef>
#include <string_view>

#include "addnorm/api.h"
#include "addnorm/view.h"

namespace addnorm {

/// Where in a Transformer something passes. Layers count from 0.
enum class SublayerKind { kAttention, kFeedForward, kEmbedding, kFinalNorm, kHead };
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
  kOutput,      ///< what embedding, final norm and head give
  kScores,  ///< attention's logits, queries × keys of a part of a head; −∞ at keys not seen
  kGamma,   ///< of a norm: its γ, as it is stored
  kBeta,    ///< of a norm: its β
  kWeight,  ///< of a projection
};
/// In which slot the norm stands that a kMean, kDeviation, kNormalized, kGamma or kBeta belongs to.
enum class NormSlot { kNone, kBefore, kInside, kAfter, kFinal };
/// Which linear map a kWeight belongs to.
enum class Projection { kNone, kQuery, kKey, kValue, kOutput, kGate, kUp, kDown };

/// What a probe is told to be looking at.
struct Site {
  std::size_t layer = 0;
  SublayerKind sublayer = SublayerKind::kAttention;
  Point point = Point::kX;
  NormSlot norm = NormSlot::kNone;
  Projection projection = Projection::kNone;

  bool operator==(const Site&) const = default;
};

/// Is told what passes, in forward the values and in backward the gradients of the loss. A view is
/// valid during the call only. Attached through Pass::probe; without one nothing is computed for
/// it.
template <typename T>
class ADDNORM_API Probe {
 public:
  virtual ~Probe() = default;
  /// The values at a point.
  virtual void forward(const Site& site, MatrixView<const T> values) = 0;
  /// The gradients of the loss with respect to them.
  virtual void backward(const Site& site, MatrixView<const T> gradients) = 0;
  /// Whether attention shall make its scores once more, to tell them.
  virtual bool wants_scores() const { return false; }
};

}  // namespace addnorm
