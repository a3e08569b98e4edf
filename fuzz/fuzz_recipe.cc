#include "fuzz.h"
#include "model/recipe.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz(data, size,
              [](const std::string& text) { addnorm::model::parse_recipe(text, "file"); });
}
