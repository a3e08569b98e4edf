#pragma once

#include <cstddef>
#include <string>

#include "addnorm/nn/linear.h"
#include "addnorm/nn/pass.h"

namespace addnorm {

enum class FeedForwardKind { kRelu, kGelu, kGeluTanh, kSwiGlu, kGeGluTanh };
constexpr std::array<std::string_view, 5> names_of(FeedForwardKind) {
  return {"relu", "gelu", "gelu-tanh", "swiglu", "geglu-tanh"};
}

constexpr bool is_gated(FeedForwardKind kind) {
  return kind >= FeedForwardKind::kSwiGlu;
}

/// F(x) = W2·φ(W1·x + b1) + b2 with φ = ReLU or GELU (Vaswani et al. 2017, eq. 2), or SwiGLU:
/// F(x) = W2·(SiLU(Wg·x) ⊙ W1·x) with biases likewise (Shazeer 2020, eq. 6); GeGLU has GELU there.
template <typename T>
class FeedForward : public Sublayer<T> {
 public:
  ADDNORM_API FeedForward(std::size_t d_model, std::size_t d_ff, FeedForwardKind kind,
                          Bias bias = Bias::kYes);

  ADDNORM_API void forward(MatrixView<const T> x, MatrixView<T> y, const Pass<T>& pass) override;
  ADDNORM_API void backward(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx,
                            const Pass<T>& pass) override;

  ADDNORM_API void list_parameters(const std::string& prefix, ParameterList<Arithmetic<T>>& list);
  bool gated() const { return is_gated(kind_); }
  Linear<T>& up() { return up_; }
  Linear<T>& gate() { return gate_; }  ///< of SwiGLU only
  Linear<T>& down() { return down_; }

 private:
  FeedForwardKind kind_;
  Linear<T> up_, gate_, down_;
  Matrix<T> up_out_, gate_out_, gate_active_, hidden_;
};

}  // namespace addnorm
