#pragma once

#include <cstddef>

#include "addnorm/norm.h"

namespace addnorm {

/// From [kind, ε, ε at, variance, form of γ, groups], the enumerations as their places.
inline NormOptions norm_options(const double* choice) {
  return {.kind = static_cast<NormKind>(choice[0]),
          .epsilon = choice[1],
          .epsilon_at = static_cast<EpsilonAt>(choice[2]),
          .variance = static_cast<Variance>(choice[3]),
          .gamma_form = static_cast<GammaForm>(choice[4]),
          .groups = static_cast<std::size_t>(choice[5])};
}

}  // namespace addnorm
