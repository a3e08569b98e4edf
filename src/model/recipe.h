#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "addnorm/nn/block.h"
#include "addnorm/nn/decoder.h"
#include "model/tensor_names.h"

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
  double logit_cap = 0;     ///< c: logits become c·tanh(logit/c); 0: they stay
  std::size_t longest = 0;  ///< sequences for which its rotary positions hold; 0: all
  bool is_gguf = false;     ///< its tensors have the names and the layout of GGUF files
  /// Where some layers have a part that is not known here ("routed experts"), the first
  /// `layers_run` are run, and what they leave is the output. Of the others, and of the final norm,
  /// the names of γ and β are known, and no more.
  std::string unknown_part = {};
  std::size_t layers_run = 0;

  std::size_t layers() const { return placements.size(); }
  bool runs_whole() const { return unknown_part.empty(); }
  std::size_t layers_to_run() const { return runs_whole() ? layers() : layers_run; }
  std::size_t d_model() const { return block.d_model; }
  std::size_t outputs() const {
    return output == ModelOutput::kHidden ? block.d_model : vocabulary;
  }
  /// Tokens in a sequence; 0: as many as one likes.
  std::size_t most_tokens() const {
    if (positions == 0 || longest == 0) return std::max(positions, longest);
    return std::min(positions, longest);
  }
  Naming naming() const {
    const AttentionForm form = attention.empty() ? AttentionForm{} : attention.front();
    return {.family = family,
            .heads = block.n_heads,
            .kv_heads = form.n_kv_heads > 0 ? form.n_kv_heads : block.n_heads,
            .experts = block.experts.count,
            .d_fixed = form.latent.active() ? form.d_head - 2 * form.rope.size() : 0,
            .d_value = form.d_value,
            .is_gguf = is_gguf};
  }
  BlockOptions layer_options(std::size_t layer) const {
    BlockOptions options = block;
    options.attention = attention[layer];
    options.lanes = lanes_before(placements, block.lanes, layer);
    return options;
  }

  // These set an option of all norms.
  void set_norm_kind(NormKind kind);
  void set_epsilon(double epsilon);
  void set_gamma_form(GammaForm form);
};

/// The families of a config.json of the Hugging Face hub that are known here, of t5 its encoder.
std::vector<std::string_view> families();

/// Names of the tensors beside a config.json.
using TensorList = std::function<std::vector<std::string>()>;

/// The recipe in a config.json of a family that model_type names. Throws Error, with the key, where
/// something is missing, is of the wrong kind, or would make another model than these; `file` is
/// for messages. `tensors` is asked for a family that is not known, to say which one is nearest.
Recipe parse_recipe(const std::string& json, const std::string& file,
                    const TensorList& tensors = {});
/// The same as of this family, whatever model_type says.
Recipe parse_recipe_as(std::string_view family, const std::string& json, const std::string& file);

/// The recipe of our own decoder.
Recipe recipe_of(const DecoderOptions& options);

}  // namespace addnorm::model
