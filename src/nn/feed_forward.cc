#include "addnorm/nn/feed_forward.h"

#include "base/parallel.h"
#include "base/require.h"
#include "base/time_account.h"
#include "kernels/activation.h"

namespace addnorm {
namespace {

/// out = a ⊙ b; out may be either.
template <typename T>
void multiply(MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> out) {
  parallel_for(a.rows, row_grain(a.cols), [&](std::size_t r) {
    for (std::size_t i = 0; i < a.cols; ++i) {
      using Value = Arithmetic<T>;
      out(r, i) = static_cast<T>(static_cast<Value>(a(r, i)) * static_cast<Value>(b(r, i)));
    }
  });
}

/// φ, or the gate's.
kernels::Activation activation_of(FeedForwardKind kind) {
  switch (kind) {
    case FeedForwardKind::kRelu:
      return kernels::Activation::kRelu;
    case FeedForwardKind::kGelu:
      return kernels::Activation::kGelu;
    case FeedForwardKind::kGeluTanh:
    case FeedForwardKind::kGeGluTanh:
      return kernels::Activation::kGeluTanh;
    default:
      return kernels::Activation::kSilu;
  }
}

}  // namespace

template <typename T>
FeedForward<T>::FeedForward(std::size_t d_model, std::size_t d_ff, FeedForwardKind kind, Bias bias)
    : kind_(kind),
      up_(d_model, d_ff, bias),
      gate_(gated() ? d_model : 0, gated() ? d_ff : 0, gated() ? bias : Bias::kNo),
      down_(d_ff, d_model, bias) {
  require(d_model > 0 && d_ff > 0, "feed-forward: d_model is {} and d_ff {}, must be at least 1",
          d_model, d_ff);
}

template <typename T>
void FeedForward<T>::forward(MatrixView<const T> x, MatrixView<T> y, const Pass<T>&) {
  const ScopedTimer timer(Cost::kRest);
  const std::size_t d_ff = up_.weight().value.rows();
  up_out_.resize(x.rows, d_ff);
  hidden_.resize(x.rows, d_ff);
  up_.forward(x, up_out_.view());
  if (gated()) {
    gate_out_.resize(x.rows, d_ff);
    gate_active_.resize(x.rows, d_ff);
    gate_.forward(x, gate_out_.view());
    kernels::activate<T>(activation_of(kind_), gate_out_, gate_active_);
    multiply<T>(gate_active_, up_out_, hidden_);
  } else {
    kernels::activate<T>(activation_of(kind_), up_out_, hidden_);
  }
  down_.forward(hidden_, y);
}

template <typename T>
void FeedForward<T>::backward(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx,
                              const Pass<T>& pass) {
  const ScopedTimer timer(Cost::kRest);
  Matrix<T>& d_hidden = pass.memory().d_hidden;
  d_hidden.resize(hidden_.rows(), hidden_.cols());
  down_.backward(hidden_, dy, d_hidden);
  if (gated()) {
    Matrix<T>& d_gate = pass.memory().d_gate;
    d_gate.resize(hidden_.rows(), hidden_.cols());
    multiply<T>(d_hidden, up_out_, d_gate);
    multiply<T>(d_hidden, gate_active_, d_hidden);
    kernels::activate_backward<T>(activation_of(kind_),
                                  {.x = gate_out_, .dy = d_gate, .dx = d_gate});
    up_.backward(x, d_hidden, dx);
    gate_.backward(x, d_gate, dx, GradientMode::kAccumulate);
  } else {
    kernels::activate_backward<T>(activation_of(kind_),
                                  {.x = up_out_, .dy = d_hidden, .dx = d_hidden});
    up_.backward(x, d_hidden, dx);
  }
}

template <typename T>
void FeedForward<T>::list_parameters(const std::string& prefix,
                                     ParameterList<Arithmetic<T>>& list) {
  up_.list_parameters(join_names(prefix, "up"), list);
  if (gated()) gate_.list_parameters(join_names(prefix, "gate"), list);
  down_.list_parameters(join_names(prefix, "down"), list);
}

template class FeedForward<float>;
template class FeedForward<double>;
template class FeedForward<BFloat16>;

}  // namespace addnorm
