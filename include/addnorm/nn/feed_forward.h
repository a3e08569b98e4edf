#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "addnorm/nn/linear.h"
#include "addnorm/nn/pass.h"
#include "addnorm/nn/router.h"

namespace addnorm {

enum class FeedForwardKind { kRelu, kGelu, kGeluTanh, kSwiGlu, kGeGluTanh, kClampedSwiGlu };
constexpr std::array<std::string_view, 6> names_of(FeedForwardKind) {
  return {"relu", "gelu", "gelu-tanh", "swiglu", "geglu-tanh", "clamped-swiglu"};
}

constexpr bool is_gated(FeedForwardKind kind) {
  return kind >= FeedForwardKind::kSwiGlu;
}

/// F(x) = W2·φ(W1·x + b1) + b2 with φ = ReLU or GELU (Vaswani et al. 2017, eq. 2).
///
/// SwiGLU is F(x) = W2·(SiLU(Wg·x) ⊙ W1·x) with the same biases (Shazeer 2020, eq. 6); GeGLU
/// replaces SiLU by GELU. The clamped SwiGLU of gpt-oss is F(x) = W2·(g·σ(1.702·g) ⊙ (u + 1)) with
/// g = min(Wg·x + bg, 7) and u = W1·x + b1 clamped to [−7, 7].
///
/// With experts each matrix has the rows of all experts, one expert after the other.
template <typename T>
class FeedForward : public Sublayer<T> {
  static_assert(check_module<T>());

 public:
  ADDNORM_API FeedForward(std::size_t d_model, std::size_t d_ff, FeedForwardKind kind,
                          Bias bias = Bias::kYes, const ExpertForm& experts = {});

  ADDNORM_API void forward(MatrixView<const T> x, MatrixView<T> y, const Pass<T>& pass) override;
  ADDNORM_API void backward(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx,
                            const Pass<T>& pass) override;

  ADDNORM_API void list_parameters(const std::string& prefix, ParameterList<Arithmetic<T>>& list);
  bool gated() const { return is_gated(kind_); }
  std::optional<Router<T>>& router() { return router_; }  ///< present with experts only
  Linear<T>& up() { return up_; }
  Linear<T>& gate() { return gate_; }  ///< for gated kinds only
  Linear<T>& down() { return down_; }

 private:
  /// The end of each expert's rows. Without experts there is one end.
  using Ends = std::span<const std::size_t>;
  void run(MatrixView<const T> x, MatrixView<T> y, Ends ends);
  void run_backward(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx, Ends ends,
                    Scratch<T>& scratch);
  void gate_backward(MatrixView<T> d_up, MatrixView<T> d_gate) const;

  FeedForwardKind kind_;
  std::size_t d_ff_;
  std::optional<Router<T>> router_;
  Linear<T> up_, gate_, down_;
  Matrix<T> up_out_, gate_out_, gate_active_, hidden_;
  Matrix<T> rows_, rows_out_;  // the experts' inputs and outputs
};

}  // namespace addnorm
