#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "doctor/examine.h"
#include "doctor/open_model.h"

namespace addnorm {

/// Another recipe that weights of the same shapes could have been trained with.
struct RecipeVariant {
  std::string_view change;
  bool (*fits)(const Recipe&);  ///< whether it differs, and makes sense
  void (*apply)(Recipe&);
};
std::span<const RecipeVariant> recipe_variants();

/// The one with this name.
const RecipeVariant& find_variant(std::string_view change);

/// Runs the model of `path` on the tokens by each variant that fits, and leaves the losses in
/// `subject`. Nothing where it has no logits.
void try_alternatives(const std::string& path, const Tokens& tokens, Subject& subject);

}  // namespace addnorm
