#pragma once

#include <cstddef>
#include <span>

#include "addnorm/norm.h"
#include "kernels/plan.h"

namespace addnorm::kernels {

/// A parameter in the form that loops read: one value for each feature. Options, and the default of
/// an absent parameter, are applied once per call, so loops do not test for them. The results stay
/// exact: 1·γ is γ, and y + −0 is y.
template <typename V>
class FeatureVector {
 public:
  /// (1 + γ)·output_scale, or γ·output_scale; absent: output_scale.
  static FeatureVector gamma(const NormOptions& options, std::span<const V> values) {
    const V scale = static_cast<V>(options.output_scale);
    return {values, scale, options.gamma_form == GammaForm::kOnePlus, scale};
  }
  /// β·output_scale; absent: −0.
  static FeatureVector beta(const NormOptions& options, std::span<const V> values) {
    return {values, V{-0.0F}, false, static_cast<V>(options.output_scale)};
  }
  /// Returns a skip or gain.
  static FeatureVector scale(const Scale<V>& scale) {
    return {scale.vector, scale.constant, false, V{1}};
  }

  /// Whether loops can read the caller's values unchanged.
  bool as_given() const { return !given_.empty() && !one_plus_ && factor_ == V{1}; }

  /// Writes the values of all features to `room`, which holds kStagedFeatures<V>. Does nothing if
  /// loops can read the caller's values and `copy` is false. For wider rows, at() computes the
  /// values block by block.
  void stage(V* room, std::size_t features, bool copy);

  /// Returns the values of features begin … begin + n − 1.
  const V* at(std::size_t begin, std::size_t n) const {
    if (ready_ != nullptr) return ready_ + begin;
    make(begin, n);
    return room_;
  }

 private:
  FeatureVector(std::span<const V> given, V absent, bool one_plus, V factor)
      : given_(given), absent_(absent), one_plus_(one_plus), factor_(factor) {}

  void make(std::size_t begin, std::size_t n) const;

  std::span<const V> given_;
  V absent_;
  bool one_plus_;
  V factor_;
  const V* ready_ = nullptr;
  V* room_ = nullptr;
};

}  // namespace addnorm::kernels
