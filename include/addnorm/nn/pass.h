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

/// The keys that a query must not see. The three masks are combined; a query that sees no key gets
/// zeros.
struct AttentionMask {
  enum class Order { kAny, kCausal };
  Order order = Order::kAny;  ///< kCausal: only keys at or before the query
  std::span<const std::uint8_t> key_padding =
      {};                                      ///< batch × key length, nonzero: padding; or empty
  std::span<const std::uint8_t> blocked = {};  ///< query × key length, nonzero: blocked; or empty
};

/// Memory for gradients that live only within one sublayer's backward; all layers share it.
template <typename T>
struct Scratch {
  static_assert(check_module<T>());
  using Value = Arithmetic<T>;

  Matrix<T> d_branch, d_before;                  // AddNorm
  Matrix<T> d_hidden, d_gate, d_rows;            // FeedForward
  Matrix<T> d_query, d_key, d_value, d_context;  // MultiHeadAttention
  Matrix<T> d_latent, d_raw;                     // MultiHeadAttention: latent vectors
  Matrix<Value> norm;                            // the workspace of a norm
  Matrix<Value> d_read;                          // LaneSite: gradient of z
  Matrix<Value> d_update;              // LaneSite: gradient of u; then AddNorm: of x through u
  Matrix<Value> d_lanes, d_last_lane;  // LaneSite
};

/// Called in backward when the gradients of a layer's parameters are complete. The first call
/// passes the number of layers: the final norm's gradients are complete, and the head's unless it
/// is tied. Then one call for each layer follows, from the last to the first.
using GradientsReady = std::function<void(std::size_t layer)>;

/// The state that one forward and its backward share, for T = float, double and BFloat16. Rows of
/// every activation are tokens: batch × length. T is the type of branches and products. With
/// BFloat16 the residual stream, its gradient and the parameters are float32.
template <typename T>
struct Pass {
  static_assert(check_module<T>());

  std::size_t batch = 1;
  std::size_t length = 1;
  Mode mode = Mode::kTraining;
  AttentionMask mask = {};
  std::uint64_t dropout_seed = 0;  ///< must differ in each step
  /// In evaluation a sequence may be fed in pieces. Earlier passes fed `past` of its tokens, and
  /// attention kept their keys and values. `context` is the number of tokens to allocate room for
  /// (0: those of one pass).
  std::size_t past = 0;
  std::size_t context = 0;
  std::size_t first_row = 0;  ///< index of this pass's first row among the rows that share the seed
  Scratch<T>* scratch = nullptr;  ///< for backward, and for batch and group norms
  Probe<Arithmetic<T>>* probe = nullptr;
  const GradientsReady* on_gradients = nullptr;

  std::size_t rows() const { return batch * length; }
  ADDNORM_API Scratch<T>& memory() const;  ///< throws an Error if there is none
};

/// The branch of a residual sum: F in y = x + F(x). Attention and feed-forward are the usual ones.
template <typename T>
class ADDNORM_API Sublayer {
  static_assert(check_module<T>());

 public:
  virtual ~Sublayer() = default;
  /// y = F(x), rows × d_model each. If the placement reads several mixes of lanes, x has the rows
  /// of all mixes, one mix after the other.
  virtual void forward(MatrixView<const T> x, MatrixView<T> y, const Pass<T>& pass) = 0;
  /// dx = dF(dy), from the state of the last forward; adds to the parameters' gradients.
  virtual void backward(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx,
                        const Pass<T>& pass) = 0;
};

}  // namespace addnorm
