#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "addnorm/nn/block.h"
#include "addnorm/nn/decoder.h"

namespace addnorm::model {

/// What a model gives for each token.
enum class ModelOutput {
  kHidden,        ///< the stream after the last layer and the final norm
  kTiedLogits,    ///< its products with the token embedding
  kLogits,        ///< its products with a head
  kMaskedLogits,  ///< BERT's: linear, GELU, norm, products with the token embedding, bias
};

/// A Transformer as data: everything but its numbers.
struct Recipe {
  std::string family;  ///< as its config.json says: "gpt2", "llama", …; "addnorm" of our own runs
  std::size_t vocabulary = 0;
  std::size_t positions = 0;    ///< learned ones; 0: none
  std::size_t token_types = 0;  ///< of which type 0 is added to all tokens; 0: none
  double embedding_scale = 1;
  Slot embedding_norm = Slot::kNothing;
  BlockOptions block;                      ///< its `attention` is that of each layer below
  std::vector<BlockPlacement> placements;  ///< one for each layer
  std::vector<AttentionForm> attention;    ///< likewise
  AttentionMask::Order order = AttentionMask::Order::kCausal;
  Slot final_norm = Slot::kNorm;
  ModelOutput output = ModelOutput::kLogits;
  double logit_cap = 0;  ///< c: logits become c·tanh(logit/c); 0: they stay

  std::size_t layers() const { return placements.size(); }
  std::size_t d_model() const { return block.d_model; }
  std::size_t outputs() const {
    return output == ModelOutput::kHidden ? block.d_model : vocabulary;
  }
  BlockOptions layer_options(std::size_t layer) const {
    BlockOptions options = block;
    options.attention = attention[layer];
    options.lanes = lanes_before(placements, block.lanes, layer);
    return options;
  }

  /// Of all norms.
  void set_epsilon(double epsilon);
  void set_gamma_form(GammaForm form);
};

/// The recipe in a config.json of the Hugging Face hub: gpt2, bert, llama, qwen2, qwen3, gemma,
/// gemma2, gemma3_text, olmo2 and t5 (its encoder). Throws Error, with the key, where something is
/// missing, is of the wrong kind, or would make another model than these; `file` is for messages.
Recipe parse_recipe(const std::string& json, const std::string& file);

/// The recipe of our own decoder.
Recipe recipe_of(const DecoderOptions& options);

}  // namespace addnorm::model
