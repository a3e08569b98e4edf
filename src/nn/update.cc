#include "addnorm/nn/update.h"

#include <cmath>

#include "base/parallel.h"
#include "kernels/dropout.h"
#include "nn/copy.h"

namespace addnorm {
namespace {

/// Calls body(row) for each row, on all threads.
template <typename Body>
void for_each_row(std::size_t rows, std::size_t cols, const Body& body) {
  parallel_for(rows, row_grain(cols), body);
}

template <typename T>
Arithmetic<T> gate_of(T logit) {
  return 1 / (1 + std::exp(-static_cast<Arithmetic<T>>(logit)));
}

/// ε of Oh et al.'s code, added to ⟨z, z⟩.
constexpr double kEpsilon = 1e-6;

/// Σ a_c·b_c of a row.
template <typename A, typename V>
V inner(std::span<A> a, std::span<const V> b) {
  V sum = 0;
  for (std::size_t c = 0; c < a.size(); ++c) sum += static_cast<V>(a[c]) * b[c];
  return sum;
}

/// ⟨z, z⟩ + ε, positive even for a row of zeros.
template <typename V>
V square(std::span<const V> z) {
  return inner(z, z) + static_cast<V>(kEpsilon);
}

}  // namespace

template <typename T>
UpdateStep<T>::UpdateStep(const Placement& placement, const Place& place, std::size_t d_model)
    : kind_(placement.update),
      survival_(placement.survival.value(place.depth)),
      place_(8 * place.depth.layer + 4 + static_cast<std::size_t>(place.sublayer)) {
  if (kind_ != Update::kGated) return;
  constexpr double kClosed = -1;  // the gates start nearly closed (Srivastava et al. 2015)
  gate_.emplace(d_model, d_model, Bias::kYes);
  gate_->bias().value.fill(static_cast<Value>(kClosed));
}

/// Returns the factor of row `r` of u: 0 or 1/survival.
template <typename T>
Arithmetic<T> UpdateStep<T>::kept(std::size_t r, const Pass<T>& pass) const {
  if (!drops(pass)) return 1;
  const Dropout dropout{
      .probability = 1 - survival_, .seed = pass.dropout_seed, .offset = place_ << 40};
  return kernels::dropout_factor<Value>(dropout, (pass.first_row + r) / pass.length);
}

template <typename T>
MatrixView<const T> UpdateStep<T>::forward(MatrixView<const T> f, MatrixView<const Value> z,
                                           const Pass<T>& pass) {
  u_.resize(f.rows, f.cols);
  if (gate_) {
    logits_.resize(f.rows, f.cols);
    gate_->forward(nn::converted(z, gate_input_), logits_.view());
  }
  for_each_row(f.rows, f.cols, [&](std::size_t r) {
    const Value keep = kept(r, pass);
    const Value along =
        kind_ == Update::kOrthogonal ? inner(f.row(r), z.row(r)) / square(z.row(r)) : 1;
    for (std::size_t c = 0; c < f.cols; ++c) {
      Value u = static_cast<Value>(f(r, c));
      if (kind_ != Update::kBranch) u -= along * z(r, c);
      if (gate_) u *= gate_of(logits_(r, c));
      u_(r, c) = static_cast<T>(keep * u);
    }
  });
  return u_;
}

template <typename T>
void UpdateStep<T>::backward(MatrixView<const T> f, MatrixView<const Value> z,
                             MatrixView<const T> du, MatrixView<T> df, MatrixView<Value> dz,
                             const Pass<T>& pass) {
  if (gate_) d_logits_.resize(f.rows, f.cols);
  for_each_row(f.rows, f.cols, [&](std::size_t r) {
    const Value keep = kept(r, pass);
    const auto value = [](T x) { return static_cast<Value>(x); };
    // u = f − along·z with along = ⟨f, z⟩/(⟨z, z⟩ + ε)
    Value along = 1, d_along = 0, divisor = 1;
    if (kind_ == Update::kOrthogonal) {
      divisor = square(z.row(r));
      along = inner(f.row(r), z.row(r)) / divisor;
      d_along = -keep * inner(du.row(r), z.row(r));
    }
    for (std::size_t c = 0; c < f.cols; ++c) {
      Value d = keep * value(du(r, c));
      if (gate_) {
        const Value gate = gate_of(logits_(r, c));
        d_logits_(r, c) = static_cast<T>(d * (value(f(r, c)) - z(r, c)) * gate * (1 - gate));
        d *= gate;
      }
      Value d_z = kind_ == Update::kBranch ? 0 : -along * d;
      Value d_f = d;
      if (kind_ == Update::kOrthogonal) {
        d_f += d_along * z(r, c) / divisor;
        d_z += d_along * (value(f(r, c)) - 2 * along * z(r, c)) / divisor;
      }
      df(r, c) = static_cast<T>(d_f);
      dz(r, c) = d_z;
    }
  });
  if (!gate_) return;
  if constexpr (kIsArithmetic<T>) {
    gate_->backward(z, d_logits_, dz, GradientMode::kAccumulate);
  } else {
    d_gate_input_.resize(z.rows, z.cols);
    gate_->backward(gate_input_, d_logits_, d_gate_input_);
    residual_add<Value, T>({.x = dz, .branch = d_gate_input_}, dz);
  }
}

template <typename T>
void UpdateStep<T>::list_parameters(const std::string& prefix, ParameterList<Value>& list) {
  if (gate_) gate_->list_parameters(join_names(prefix, "gate"), list);
}

template class UpdateStep<float>;
template class UpdateStep<double>;
template class UpdateStep<BFloat16>;

}  // namespace addnorm
