#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "addnorm/norm.h"

namespace addnorm::model {

/// Published facts of a family of models, the `model_type` of its config.json.
struct FamilyFacts {
  std::string_view name;
  std::optional<NormKind> norm = {};
  std::optional<GammaForm> gamma_form = {};  ///< as safetensors files store γ; GGUF files store Γ
  std::array<double, 2> epsilons = {};       ///< those of its published models; 0: unknown
  bool has_scaled_scores = true;             ///< false: 1/√d is in its initial weights
  bool has_scaled_projections = false;  ///< GPT-2's initial weights: 1/√(2·layers) of others
  bool has_normalized_stream = false;   ///< adds the branch to the norm's output, not to x
};

/// The facts of a family. Without a row in the table its norm, γ and ε are unknown.
FamilyFacts family_facts(std::string_view model_type);

/// Whether published files hold tensors of this name that no recipe reads: masks and tables that
/// can be made anew, copies of tied weights, heads for other tasks.
bool is_carried_along(std::string_view tensor);

}  // namespace addnorm::model
