#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "addnorm/nn/parameter.h"
#include "addnorm/nn/placement.h"
#include "addnorm/norm.h"

namespace addnorm {

/// skip or gain of one residual sum, as a ResidualFactor describes it.
template <typename V>
class ResidualScale {
 public:
  ResidualScale(const ResidualFactor& factor, Depth depth, std::size_t features)
      : form_(factor.form), constant_(static_cast<V>(factor.initial.value(depth))) {
    if (form_ == Form::kConstant) return;
    learned_ = Parameter<V>(1, form_ == Form::kLearnedScalar ? 1 : features,
                            ParameterRole::kResidualFactor, constant_);
  }

  /// The learned parameter v; empty where the factor is constant.
  Parameter<V>& learned() { return learned_; }

  /// Computes the factor from v. A vector stays valid until the next call.
  Scale<V> value() {
    switch (form_) {
      case Form::kLearnedScalar:
        return {.constant = learned_.value(0, 0)};
      case Form::kLearnedVector:
        return {.vector = learned_.value.flat()};
      case Form::kLearnedMagnitudes:
        magnitudes_.resize(1, learned_.value.cols());
        std::ranges::transform(learned_.value.flat(), magnitudes_.data(),
                               [](V v) { return std::abs(v); });
        return {.vector = magnitudes_.flat()};
      default:
        return {.constant = constant_};
    }
  }

  /// Memory to which a backward adds the gradient of value(); call take_gradient() afterwards.
  std::span<V> gradient() {
    if (form_ != Form::kLearnedMagnitudes) return learned_.gradient.flat();
    d_magnitudes_.resize(1, learned_.value.cols());
    d_magnitudes_.fill(0);
    return d_magnitudes_.flat();
  }

  /// Adds the gradient of v that follows from gradient(): d|v| is sign(v)·dv, and 0 where v is 0.
  void take_gradient() {
    for (std::size_t i = 0; i < d_magnitudes_.flat().size(); ++i) {
      const V v = learned_.value(0, i), d = d_magnitudes_(0, i);
      if (v != 0) learned_.gradient(0, i) += v > 0 ? d : -d;
    }
  }

 private:
  using Form = ResidualFactor::Form;

  Form form_;
  V constant_;
  Parameter<V> learned_;
  Matrix<V> magnitudes_, d_magnitudes_;
};

}  // namespace addnorm
