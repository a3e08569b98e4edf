#pragma once

#include <string>
#include <string_view>

#include "doctor/examine.h"
#include "doctor/open_model.h"

namespace addnorm::doctor {

/// Another recipe for weights of the same shapes.
struct RecipeVariant {
  std::string_view change;
  bool (*fits)(const model::Recipe&);  ///< whether it differs and is possible
  void (*apply)(model::Recipe&);
};

/// Returns the variant with this name; throws an Error that lists the names if there is none.
const RecipeVariant& find_variant(std::string_view change);

/// Runs the model of `path`, which has the given recipe, on the tokens with each variant that fits.
/// Adds the losses to `subject`. Does nothing for a model without logits.
void try_alternatives(const std::string& path, const model::Recipe& recipe, const Tokens& tokens,
                      Subject& subject);

}  // namespace addnorm::doctor
