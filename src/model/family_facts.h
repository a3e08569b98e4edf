#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "addnorm/norm.h"

namespace addnorm::model {

/// Published facts about a family of models, named by the `model_type` of its config.json.
struct FamilyFacts {
  std::string_view name;
  std::optional<NormKind> norm = {};
  /// in safetensors files; GGUF files store the effective γ
  std::optional<GammaForm> gamma_form = {};
  std::array<double, 2> epsilons = {};  ///< of its published models; 0: unknown
  bool has_scaled_scores = true;        ///< false: the initial weights include the factor 1/√d
  bool has_scaled_projections = false;  ///< GPT-2: initial weights have a factor 1/√(2·layers)
  bool has_normalized_stream = false;   ///< the branch is added to the norm's output, not to x
  /// false: the gradient of a router is exactly 0 unless two experts nearly tie
  bool has_router_gradient = true;
};

/// Returns the facts of a family. For an unknown family, norm, γ and ε are unknown.
FamilyFacts family_facts(std::string_view model_type);

/// Returns whether published files hold tensors of this name that no recipe reads: masks and tables
/// that can be recomputed, copies of tied weights, heads for other tasks.
bool is_carried_along(std::string_view tensor);

}  // namespace addnorm::model
