#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "addnorm/api.h"
#include "addnorm/float16.h"
#include "addnorm/matrix.h"
#include "addnorm/nn/probe.h"
#include "addnorm/types.h"

namespace addnorm {

enum class Mode { kTraining, kEvaluation };

/// Which keys a query must not see. The three add up; a query that sees nothing gets zeros.
struct AttentionMask {
  enum class Order { kAny, kCausal };
  Order order = Order::kAny;  ///< kCausal: only keys at or before the query
  std::span<const std::uint8_t> key_padding =
      {};                                      ///< batch × key length, nonzero: padding; or empty
  std::span<const std::uint8_t> blocked = {};  ///< query × key length, nonzero: blocked; or empty
};

/// Memory for gradients that live only within one sublayer's backward: all layers share it.
template <typename T>
struct Scratch {
  static_assert(check_module<T>());
  using Value = Arithmetic<T>;

  Matrix<T> d_branch, d_before;                  // AddNorm
  Matrix<T> d_hidden, d_gate, d_rows;            // FeedForward
  Matrix<T> d_query, d_key, d_value, d_context;  // MultiHeadAttention
  Matrix<T> d_latent, d_raw;                     // its latent vectors
  Matrix<Value> norm;                            // the workspace of a norm
  Matrix<Value> d_read;                          // AddNorm: of what the sublayer reads
  Matrix<Value> d_lanes, d_update, d_last_lane;  // LaneSite
};

/// Called for each layer in backward, once the gradients of its parameters are complete: first the
/// number of layers, for the final norm and the head (where that is not tied), then layer by layer
/// down.
using GradientsReady = std::function<void(std::size_t layer)>;

/// What one forward and its backward share, for T = float, double and BFloat16, as all that takes
/// it. Rows of every activation are tokens: batch × length.
/// T is the type of branches and products. With BFloat16 the residual stream, its gradient and the
/// parameters are float32.
template <typename T>
struct Pass {
  static_assert(check_module<T>());

  std::size_t batch = 1;
  std::size_t length = 1;
  Mode mode = Mode::kTraining;
  AttentionMask mask = {};
  std::uint64_t dropout_seed = 0;  ///< another one each step
  /// In evaluation a sequence may be fed in pieces: `past` of its tokens were fed before, and
  /// attention has kept their keys and values, with room for as many tokens as `context` says
  /// (0: for those of one pass).
  std::size_t past = 0;
  std::size_t context = 0;
  std::size_t first_row = 0;      ///< this pass's place among the rows that share the seed
  Scratch<T>* scratch = nullptr;  ///< for backward, and for batch and group norms
  Probe<Arithmetic<T>>* probe = nullptr;
  const GradientsReady* on_gradients = nullptr;

  std::size_t rows() const { return batch * length; }
  ADDNORM_API Scratch<T>& memory() const;  ///< an Error where there is none
};

/// The branch of a residual sum: F in y = x + F(x). Attention and feed-forward are the usual ones.
template <typename T>
class ADDNORM_API Sublayer {
  static_assert(check_module<T>());

 public:
  virtual ~Sublayer() = default;
  /// y = F(x), rows × d_model each. Of a placement that reads several mixes of lanes x has so many
  /// times the rows: all of one mix, then all of the next.
  virtual void forward(MatrixView<const T> x, MatrixView<T> y, const Pass<T>& pass) = 0;
  /// dx = dF(dy), with what the last forward has left; adds to the parameters' gradients.
  virtual void backward(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx,
                        const Pass<T>& pass) = 0;
};

}  // namespace addnorm
