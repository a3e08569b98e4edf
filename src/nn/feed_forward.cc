#include "addnorm/nn/feed_forward.h"

#include <algorithm>
#include <cmath>

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

/// Returns φ, or the gate's activation.
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

/// g·σ(αg) ⊙ (u + 1) of the clamped g and u, and its derivatives, which are 0 beyond the limits.
template <typename V>
struct ClampedSwiGlu {
  static constexpr V kLimit = 7, kAlpha = V(1.702);

  V hidden, by_gate, by_up;

  ClampedSwiGlu(V gate, V up) {
    const V g = std::min(gate, kLimit);
    const V u = std::clamp(up, -kLimit, kLimit);
    const V sigmoid = 1 / (1 + std::exp(-kAlpha * g));
    hidden = g * sigmoid * (u + 1);
    by_gate = gate > kLimit ? 0 : (u + 1) * sigmoid * (1 + kAlpha * g * (1 - sigmoid));
    by_up = std::abs(up) > kLimit ? 0 : g * sigmoid;
  }
};

/// Calls body(r, i, value) with each ClampedSwiGlu.
template <typename T, typename Body>
void for_clamped(MatrixView<const T> gate, MatrixView<const T> up, const Body& body) {
  using Value = Arithmetic<T>;
  parallel_for(gate.rows, row_grain(gate.cols), [&](std::size_t r) {
    for (std::size_t i = 0; i < gate.cols; ++i) {
      body(r, i,
           ClampedSwiGlu<Value>(static_cast<Value>(gate(r, i)), static_cast<Value>(up(r, i))));
    }
  });
}

/// Calls body(expert, first row, rows) for each expert with rows.
template <typename Body>
void for_experts(std::span<const std::size_t> ends, const Body& body) {
  std::size_t first = 0;
  for (std::size_t e = 0; e < ends.size(); first = ends[e++]) {
    if (ends[e] > first) body(e, first, ends[e] - first);
  }
}

/// y = linear(x); each expert's rows use its part.
template <typename T>
void apply(const Linear<T>& linear, std::span<const std::size_t> ends, MatrixView<const T> x,
           MatrixView<T> y) {
  for_experts(ends, [&](std::size_t e, std::size_t first, std::size_t rows) {
    linear.forward(x.block(first, 0, rows, x.cols), y.block(first, 0, rows, y.cols), e);
  });
}

template <typename T>
void apply_backward(Linear<T>& linear, std::span<const std::size_t> ends, MatrixView<const T> x,
                    MatrixView<const T> dy, MatrixView<T> dx,
                    GradientMode mode = GradientMode::kOverwrite) {
  for_experts(ends, [&](std::size_t e, std::size_t first, std::size_t rows) {
    linear.backward(x.block(first, 0, rows, x.cols), dy.block(first, 0, rows, dy.cols),
                    dx.block(first, 0, rows, dx.cols), mode, e);
  });
}

}  // namespace

template <typename T>
FeedForward<T>::FeedForward(std::size_t d_model, std::size_t d_ff, FeedForwardKind kind, Bias bias,
                            const ExpertForm& experts)
    : kind_(kind),
      d_ff_(d_ff),
      up_(d_model, d_ff, bias, std::max<std::size_t>(experts.count, 1)),
      gate_(gated() ? d_model : 0, gated() ? d_ff : 0, gated() ? bias : Bias::kNo,
            std::max<std::size_t>(experts.count, 1)),
      down_(d_ff, d_model, bias, std::max<std::size_t>(experts.count, 1)) {
  require(d_model > 0 && d_ff > 0, "feed-forward: d_model is {} and d_ff {}, must be at least 1",
          d_model, d_ff);
  if (experts.active()) router_.emplace(d_model, experts, bias);
}

template <typename T>
void FeedForward<T>::forward(MatrixView<const T> x, MatrixView<T> y, const Pass<T>&) {
  const ScopedTimer timer(Cost::kRest);
  if (!router_) return run(x, y, {&x.rows, 1});
  router_->choose(x);
  rows_.resize(router_->rows(), x.cols);
  rows_out_.resize(router_->rows(), x.cols);
  router_->spread(x, rows_);
  run(rows_, rows_out_, router_->ends());
  router_->combine(rows_out_, y);
}

template <typename T>
void FeedForward<T>::run(MatrixView<const T> x, MatrixView<T> y, Ends ends) {
  up_out_.resize(x.rows, d_ff_);
  hidden_.resize(x.rows, d_ff_);
  apply<T>(up_, ends, x, up_out_);
  if (gated()) {
    gate_out_.resize(x.rows, d_ff_);
    apply<T>(gate_, ends, x, gate_out_);
  }
  if (kind_ == FeedForwardKind::kClampedSwiGlu) {
    for_clamped<T>(gate_out_, up_out_, [&](std::size_t r, std::size_t i, const auto& value) {
      hidden_(r, i) = static_cast<T>(value.hidden);
    });
  } else if (gated()) {
    gate_active_.resize(x.rows, d_ff_);
    kernels::activate<T>(activation_of(kind_), gate_out_, gate_active_);
    multiply<T>(gate_active_, up_out_, hidden_);
  } else {
    kernels::activate<T>(activation_of(kind_), up_out_, hidden_);
  }
  apply<T>(down_, ends, hidden_, y);
}

template <typename T>
void FeedForward<T>::backward(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx,
                              const Pass<T>& pass) {
  const ScopedTimer timer(Cost::kRest);
  Scratch<T>& scratch = pass.memory();
  if (!router_) return run_backward(x, dy, dx, {&x.rows, 1}, scratch);
  Matrix<T>& d_rows = scratch.d_rows;
  d_rows.resize(rows_.rows(), rows_.cols());
  router_->combine_backward(rows_out_, dy, d_rows);
  run_backward(rows_, d_rows, d_rows, router_->ends(), scratch);
  router_->spread_backward(x, d_rows, dx);
}

/// dx may be dy.
template <typename T>
void FeedForward<T>::run_backward(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx,
                                  Ends ends, Scratch<T>& scratch) {
  Matrix<T>& d_hidden = scratch.d_hidden;
  d_hidden.resize(hidden_.rows(), hidden_.cols());
  apply_backward<T>(down_, ends, hidden_, dy, d_hidden);
  if (gated()) {
    Matrix<T>& d_gate = scratch.d_gate;
    d_gate.resize(hidden_.rows(), hidden_.cols());
    gate_backward(d_hidden, d_gate);
    apply_backward<T>(up_, ends, x, d_hidden, dx);
    apply_backward<T>(gate_, ends, x, d_gate, dx, GradientMode::kAccumulate);
  } else {
    kernels::activate_backward<T>(activation_of(kind_),
                                  {.x = up_out_, .dy = d_hidden, .dx = d_hidden});
    apply_backward<T>(up_, ends, x, d_hidden, dx);
  }
}

/// Computes the gradient of the gate's product, and replaces the hidden values' gradient in d_up by
/// that of the other factor.
template <typename T>
void FeedForward<T>::gate_backward(MatrixView<T> d_up, MatrixView<T> d_gate) const {
  if (kind_ == FeedForwardKind::kClampedSwiGlu) {
    using Value = Arithmetic<T>;
    return for_clamped<T>(gate_out_, up_out_, [&](std::size_t r, std::size_t i, const auto& value) {
      const auto d_hidden = static_cast<Value>(d_up(r, i));
      d_gate(r, i) = static_cast<T>(d_hidden * value.by_gate);
      d_up(r, i) = static_cast<T>(d_hidden * value.by_up);
    });
  }
  multiply<T>(d_up, up_out_, d_gate);
  multiply<T>(d_up, gate_active_, d_up);
  kernels::activate_backward<T>(activation_of(kind_), {.x = gate_out_, .dy = d_gate, .dx = d_gate});
}

template <typename T>
void FeedForward<T>::list_parameters(const std::string& prefix,
                                     ParameterList<Arithmetic<T>>& list) {
  if (router_) router_->list_parameters(join_names(prefix, "router"), list);
  up_.list_parameters(join_names(prefix, "up"), list);
  if (gated()) gate_.list_parameters(join_names(prefix, "gate"), list);
  down_.list_parameters(join_names(prefix, "down"), list);
}

template class FeedForward<float>;
template class FeedForward<double>;
template class FeedForward<BFloat16>;

}  // namespace addnorm
