#pragma once

/// Random arguments of the tests of the C interface, in C++ and in C.

#include <rapidcheck.h>

#include <vector>

#include "addnorm.h"
#include "addnorm/norm.h"
#include "support/compare.h"
#include "support/random.h"

namespace addnorm::testing {

template <typename S, typename B>
constexpr addnorm_dtype kDtype = ADDNORM_F32;
template <>
inline constexpr addnorm_dtype kDtype<double, double> = ADDNORM_F64;
template <>
inline constexpr addnorm_dtype kDtype<BFloat16, BFloat16> = ADDNORM_BF16;
template <>
inline constexpr addnorm_dtype kDtype<Float16, Float16> = ADDNORM_F16;
template <>
inline constexpr addnorm_dtype kDtype<float, BFloat16> = ADDNORM_F32_BF16;
template <>
inline constexpr addnorm_dtype kDtype<float, Float16> = ADDNORM_F32_F16;

template <typename T>
std::vector<T> numbers(std::size_t size) {
  TorchGenerator generator(*rc::gen::arbitrary<std::uint32_t>());
  std::vector<T> values;
  for (const float value : random_vector<float>(generator, size)) {
    values.push_back(static_cast<T>(value));
  }
  return values;
}

/// Returns the values, or none.
template <typename T>
std::vector<T> perhaps(const std::vector<T>& values) {
  return *rc::gen::arbitrary<bool>() ? values : std::vector<T>();
}

template <typename T>
T* memory_of(std::vector<T>& values) {
  return values.empty() ? nullptr : values.data();
}

inline NormOptions any_options(const std::vector<NormKind>& kinds,
                               const std::vector<Variance>& variances) {
  return {.kind = *rc::gen::elementOf(kinds),
          .epsilon = *rc::gen::element(1e-5, 0.25, 0.0),
          .epsilon_at = *rc::gen::element(EpsilonAt::kVariance, EpsilonAt::kDeviation),
          .variance = *rc::gen::elementOf(variances),
          .gamma_form = *rc::gen::element(GammaForm::kPlain, GammaForm::kOnePlus),
          .output_scale = *rc::gen::element(1.0, 0.7),
          .alpha = *rc::gen::element(0.5, 1.3)};
}

/// Returns the same norm for C, without zeros that mean something else there.
inline addnorm_norm_options c_options(const NormOptions& o) {
  return {.size = sizeof(addnorm_norm_options),
          .kind = static_cast<std::int32_t>(o.kind),
          .epsilon_at = static_cast<std::int32_t>(o.epsilon_at),
          .variance = static_cast<std::int32_t>(o.variance),
          .gamma_form = static_cast<std::int32_t>(o.gamma_form),
          .epsilon = o.epsilon,
          .output_scale = o.output_scale == 1 ? 0 : o.output_scale,
          .groups = o.groups == 1 ? 0 : o.groups,
          .alpha = o.alpha == 0.5 ? 0 : o.alpha};
}

}  // namespace addnorm::testing
