#pragma once

#include "io/gguf.h"
#include "model/recipe.h"

namespace addnorm::model {

/// The recipe of a GGUF file whose general.architecture is one of llama, qwen2, qwen3, gemma,
/// gemma2, gemma3, phi3, gpt2, gptneox, olmo2 (OLMo 3 too), glm4, smollm3, seed_oss, ernie4_5 and
/// bert. It is that of the config.json from which llama.cpp's converter made the file, but for what
/// the converter changes:
///
/// - llama, smollm3: rows of queries and keys are in another order, so neighbors turn and not
/// halves;
/// - gemma, gemma2, gemma3: γ is stored as it is and no longer as γ − 1.
///
/// The metadata does not name an activation: it is the one of the family's first checkpoints.
/// Throws Error, with the key, where something is missing, of the wrong kind, or would make another
/// model than these.
Recipe gguf_recipe(const io::Gguf& file);

}  // namespace addnorm::model
