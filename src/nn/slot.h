#pragma once

#include <cmath>
#include <optional>

#include "addnorm/nn/norm.h"
#include "addnorm/nn/placement.h"

namespace addnorm::nn {

/// Creates the norm of a slot, if there is one, or the norms of several mixes. kUnit is RMSNorm
/// without parameters, times 1/√d.
template <typename N, typename... Mixes>
void emplace_norm(Slot slot, std::optional<N>& norm, NormOptions options, std::size_t features,
                  Affine affine, double output_scale = 1, Mixes... mixes) {
  if (slot == Slot::kNothing) return;
  if (slot == Slot::kUnit) {
    affine = Affine::kNone;
    options = {.kind = NormKind::kRms, .epsilon = 1e-12};
    output_scale = 1 / std::sqrt(static_cast<double>(features));
  }
  options.output_scale *= output_scale;
  norm.emplace(options, features, affine, mixes...);
}

}  // namespace addnorm::nn
