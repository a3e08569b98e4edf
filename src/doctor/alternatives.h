#pragma once

#include <string>
#include <string_view>

#include "doctor/examine.h"
#include "doctor/open_model.h"

namespace addnorm::doctor {

/// Another recipe that weights of the same shapes could have been trained with.
struct RecipeVariant {
  std::string_view change;
  bool (*fits)(const model::Recipe&);  ///< whether it differs, and makes sense
  void (*apply)(model::Recipe&);
};

/// The one with this name; an Error that lists the names if there is none.
const RecipeVariant& find_variant(std::string_view change);

/// Runs the model of `path`, whose recipe is given, on the tokens by each variant that fits, and
/// leaves the losses in `subject`. Nothing where it has no logits.
void try_alternatives(const std::string& path, const model::Recipe& recipe, const Tokens& tokens,
                      Subject& subject);

}  // namespace addnorm::doctor
