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

/// The output of a model for each token.
enum class ModelOutput {
  kHidden,        ///< the stream after the last layer and the final norm
  kTiedLogits,    ///< its products with the token embedding
  kLogits,        ///< its products with a head
  kMaskedLogits,  ///< BERT's: linear, GELU, norm, products with the token embedding, bias
};

/// A Transformer as data, without its weights.
struct Recipe {
  std::string family;  ///< from config.json: "gpt2", "llama", …; "addnorm" for our runs
  std::size_t vocabulary = 0;
  std::size_t positions = 0;    ///< number of learned positions; 0: none
  std::size_t token_types = 0;  ///< type 0 is added to all tokens; 0: none
  double embedding_scale = 1;
  Slot embedding_norm = Slot::kNothing;
  BlockOptions block;                      ///< its `attention` is replaced by each layer's
  std::vector<BlockPlacement> placements;  ///< one for each layer
  std::vector<AttentionForm> attention;    ///< one for each layer
  AttentionMask::Order order = AttentionMask::Order::kCausal;
  Slot final_norm = Slot::kNorm;
  ModelOutput output = ModelOutput::kLogits;
  double logit_cap = 0;     ///< c: logits become c·tanh(logit/c); 0: no cap
  std::size_t longest = 0;  ///< longest sequence for its rotary positions; 0: any
  bool is_gguf = false;     ///< its tensors have the names and the layout of GGUF files
  /// If some layers have an unsupported part (such as "routed experts"), only the first
  /// `layers_run` are run, and the output is the stream after them. Of the other layers and the
  /// final norm only the names of γ and β are known.
  std::string unknown_part = {};
  std::size_t layers_run = 0;

  std::size_t layers() const { return placements.size(); }
  bool runs_whole() const { return unknown_part.empty(); }
  std::size_t layers_to_run() const { return runs_whole() ? layers() : layers_run; }
  std::size_t d_model() const { return block.d_model; }
  std::size_t outputs() const {
    return output == ModelOutput::kHidden ? block.d_model : vocabulary;
  }
  /// Returns the most tokens of a sequence; 0: no limit.
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

/// Returns the supported families of a Hugging Face config.json; for t5, its encoder.
std::vector<std::string_view> families();

/// The names of the tensors that belong to a config.json.
using TensorList = std::function<std::vector<std::string>()>;

/// Returns the recipe in a config.json, for the family that model_type names. Throws an Error that
/// names the key if a value is missing, of the wrong kind, or makes an unsupported model; `file`
/// appears in messages. `tensors` is only called for an unknown family, to find the nearest one.
Recipe parse_recipe(const std::string& json, const std::string& file,
                    const TensorList& tensors = {});
/// Like parse_recipe(), but for this family, whatever model_type says.
Recipe parse_recipe_as(std::string_view family, const std::string& json, const std::string& file);

/// The recipe of our own decoder.
Recipe recipe_of(const DecoderOptions& options);

}  // namespace addnorm::model
