#pragma once

#include "io/gguf.h"
#include "model/recipe.h"

namespace addnorm::model {

/// Returns the recipe of a GGUF file whose general.architecture is one of llama, qwen2, qwen3,
/// gemma, gemma2, gemma3, phi3, gpt2, gptneox, olmo2 (OLMo 3 too), glm4, smollm3, seed_oss,
/// ernie4_5 and bert. It is the recipe of the config.json from which llama.cpp's converter made the
/// file, with the converter's changes:
///
/// - llama, smollm3: rows of queries and keys are reordered, so rotary pairs are neighbours, not
/// halves;
/// - gemma, gemma2, gemma3: γ is stored as γ, no longer as γ − 1.
///
/// The metadata does not name an activation: the recipe uses that of the family's first
/// checkpoints. Throws an Error that names the key if a value is missing, of the wrong kind, or
/// makes an unsupported model.
Recipe gguf_recipe(const io::Gguf& file);

}  // namespace addnorm::model
