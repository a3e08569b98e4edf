#include "model/recipe.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>

#include "base/find_named.h"
#include "model/config.h"
#include "model/family_facts.h"
#include "model/nearest_family.h"
#include "model/rotary.h"

namespace addnorm::model {
namespace {

struct NamedActivation {
  std::string_view name;
  FeedForwardKind plain;
  FeedForwardKind gated;
};
constexpr FeedForwardKind kUnknown{-1};
constexpr std::array<NamedActivation, 7> kActivations{{
    {"relu", FeedForwardKind::kRelu, kUnknown},
    {"gelu", FeedForwardKind::kGelu, kUnknown},
    {"gelu_new", FeedForwardKind::kGeluTanh, FeedForwardKind::kGeGluTanh},
    {"gelu_pytorch_tanh", FeedForwardKind::kGeluTanh, FeedForwardKind::kGeGluTanh},
    {"gelu_fast", FeedForwardKind::kGeluTanh, FeedForwardKind::kGeGluTanh},
    {"silu", kUnknown, FeedForwardKind::kSwiGlu},
    {"swish", kUnknown, FeedForwardKind::kSwiGlu},
}};

FeedForwardKind feed_forward(const Config& config, const std::string& name,
                             FeedForwardKind NamedActivation::*kind) {
  for (const NamedActivation& row : kActivations) {
    if (row.name == name && row.*kind != kUnknown) return row.*kind;
  }
  config.refuse("its activation '{}' is not supported", name);
}

void set_layers(Recipe& recipe, const Config& config, const char* key, std::string_view placement,
                const AttentionForm& form) {
  constexpr std::size_t kMost = 1000;
  const std::size_t layers = config.size(key);
  if (layers > kMost) config.refuse("{} is {}, must be at most {}", key, layers, kMost);
  const Placement& row = find_placement(placement);
  recipe.placements.assign(layers, {row, row});
  recipe.attention.assign(layers, form);
  recipe.final_norm = row.final_norm;
}

Recipe gpt2(const Config& config) {
  Recipe recipe;
  recipe.vocabulary = config.size("vocab_size");
  recipe.positions = config.size("n_positions");
  recipe.block.d_model = config.size("n_embd");
  recipe.block.n_heads = config.size("n_head");
  recipe.block.d_ff = config.size("n_inner", 4 * recipe.block.d_model);
  recipe.block.feed_forward =
      feed_forward(config, config.word("activation_function", "gelu_new"), &NamedActivation::plain);
  recipe.block.norm.epsilon = config.number("layer_norm_epsilon", 1e-5);
  AttentionForm form;
  if (!config.flag("scale_attn_weights", true)) form.score_scale = 1;
  if (config.flag("scale_attn_by_inverse_layer_idx", false)) {
    config.refuse("scale_attn_by_inverse_layer_idx is not supported");
  }
  set_layers(recipe, config, "n_layer", "pre", form);
  recipe.output =
      config.flag("tie_word_embeddings", true) ? ModelOutput::kTiedLogits : ModelOutput::kLogits;
  return recipe;
}

Recipe bert(const Config& config) {
  Recipe recipe;
  recipe.vocabulary = config.size("vocab_size");
  recipe.positions = config.size("max_position_embeddings");
  recipe.token_types = config.size("type_vocab_size", 2);
  recipe.embedding_norm = Slot::kNorm;
  recipe.block.d_model = config.size("hidden_size");
  recipe.block.n_heads = config.size("num_attention_heads");
  recipe.block.d_ff = config.size("intermediate_size");
  recipe.block.feed_forward =
      feed_forward(config, config.word("hidden_act", "gelu"), &NamedActivation::plain);
  if (recipe.block.feed_forward != FeedForwardKind::kGelu) {  // the head has it too
    config.refuse("hidden_act is '{}', must be 'gelu' here", config.word("hidden_act"));
  }
  recipe.block.norm.epsilon = config.number("layer_norm_eps", 1e-12);
  if (config.flag("is_decoder", false)) config.refuse("is_decoder is not supported");
  const std::string positions = config.word("position_embedding_type", "absolute");
  if (positions != "absolute") config.refuse("positions of type '{}' are not supported", positions);
  set_layers(recipe, config, "num_hidden_layers", "post", {});
  recipe.order = AttentionMask::Order::kAny;
  recipe.output = ModelOutput::kMaskedLogits;
  return recipe;
}

void set_rotary(AttentionForm& attention, RotaryForm rotary) {
  attention.rope = std::move(rotary.frequencies);
  attention.rotary_gain = rotary.gain;
}

/// Returns the features of a head; `absent` if the file does not say.
std::size_t head_size(const Config& config, std::size_t absent) {
  constexpr std::size_t kWidest = 8192;
  const std::size_t d_head = config.size("head_dim", std::max<std::size_t>(absent, 1));
  if (d_head % 2 != 0 || d_head > kWidest) {
    config.refuse("head_dim is {}, must be even and at most {}", d_head, kWidest);
  }
  return d_head;
}

/// The common form of Llama, Mistral, Phi, Qwen, Gemma, GLM and OLMo; the defaults are Llama's.
struct LlamaForm {
  RotaryDefaults rotary = {};
  RotaryPairs rotary_pairs = RotaryPairs::kHalves;
  double epsilon = 1e-6;
  ModelOutput output = ModelOutput::kLogits;  ///< if tie_word_embeddings is absent
  std::string_view placement = "pre";
  QkNorm qk_norm = QkNorm::kNone;
  std::size_t d_head = 0, d_turning = 0;  ///< of queries and keys; 0: from the file
  Bias qkv_bias = Bias::kNo;
  /// whether attention_bias applies only to query, key and value
  bool knows_attention_bias = false;
  const char* activation_key = "hidden_act";
  const char* activation = "silu";  ///< if the key is absent
};

Recipe llama(const Config& config, const LlamaForm& form) {
  Recipe recipe;
  recipe.vocabulary = config.size("vocab_size");
  BlockOptions& block = recipe.block;
  block.d_model = config.size("hidden_size");
  block.n_heads = config.size("num_attention_heads");
  block.d_ff = config.size("intermediate_size");
  block.feed_forward = feed_forward(config, config.word(form.activation_key, form.activation),
                                    &NamedActivation::gated);
  block.norm.epsilon = config.number("rms_norm_eps", form.epsilon);
  block.affine = Affine::kGamma;
  block.bias = Bias::kNo;
  Bias qkv_bias = form.qkv_bias;
  if (form.knows_attention_bias) {
    qkv_bias = config.flag("attention_bias", qkv_bias == Bias::kYes) ? Bias::kYes : Bias::kNo;
  } else if (config.flag("attention_bias", false)) {
    config.refuse("attention_bias is not supported");
  }
  if (config.flag("mlp_bias", false)) config.refuse("mlp_bias is not supported");
  AttentionForm attention{
      .n_kv_heads = config.size("num_key_value_heads", block.n_heads),
      .d_head = form.d_head > 0 ? form.d_head : head_size(config, block.d_model / block.n_heads),
      .qkv_bias = qkv_bias,
      .rotary_pairs = form.rotary_pairs,
      .qk_norm = form.qk_norm,
      .norm = block.norm};
  RotaryForm rotary =
      read_rotary(config, form.rotary, form.d_turning > 0 ? form.d_turning : attention.d_head);
  recipe.longest = rotary.longest;
  set_rotary(attention, std::move(rotary));
  set_layers(recipe, config, "num_hidden_layers", form.placement, attention);
  const bool tied = config.flag("tie_word_embeddings", form.output == ModelOutput::kTiedLogits);
  recipe.output = tied ? ModelOutput::kTiedLogits : ModelOutput::kLogits;
  return recipe;
}

/// Returns whether each layer sees only a window, from "layer_types", or else from is_local(layer).
template <typename IsLocal>
std::vector<bool> local_layers(const Config& config, std::size_t layers, const IsLocal& is_local) {
  std::vector<bool> local(layers);
  if (!config.has("layer_types")) {
    for (std::size_t l = 0; l < layers; ++l) local[l] = is_local(l);
    return local;
  }
  const std::vector<std::string> types = config.words("layer_types");
  if (types.size() != layers) {
    config.refuse("layer_types has {} entries for {} layers", types.size(), layers);
  }
  for (std::size_t l = 0; l < layers; ++l) {
    local[l] = types[l] == "sliding_attention";
    if (!local[l] && types[l] != "full_attention") {
      config.refuse("layer_types: '{}' is not supported", types[l]);
    }
  }
  return local;
}

/// Sets the window of the local layers, and their own rotary positions if they have any.
template <typename IsLocal>
void set_windows(Recipe& recipe, const Config& config, const IsLocal& is_local,
                 const RotaryDefaults* rotary = nullptr) {
  const std::vector<bool> local = local_layers(config, recipe.layers(), is_local);
  for (std::size_t l = 0; l < recipe.layers(); ++l) {
    AttentionForm& attention = recipe.attention[l];
    if (!local[l]) continue;
    attention.window = config.size("sliding_window", 4096);
    if (rotary == nullptr) continue;
    set_rotary(attention, read_window_rotary(config, *rotary, attention.d_head));
  }
}

/// All layers see a window, if the file has one.
Recipe mistral(const Config& config, const LlamaForm& form) {
  Recipe recipe = llama(config, form);
  if (!config.has("sliding_window")) return recipe;
  for (AttentionForm& attention : recipe.attention) {
    attention.window = config.size("sliding_window");
  }
  return recipe;
}

/// The layers from max_window_layers on see a window, if use_sliding_window is true.
Recipe qwen(const Config& config, const LlamaForm& form) {
  Recipe recipe = llama(config, form);
  if (!config.flag("use_sliding_window", false)) return recipe;
  const std::size_t first = config.size("max_window_layers", 28);
  set_windows(recipe, config, [&](std::size_t l) { return l >= first; });
  return recipe;
}

/// Three layers of four see a window, and their rotary positions are not scaled.
Recipe olmo3(const Config& config) {
  const LlamaForm form{.rotary = {.base = 500'000},
                       .epsilon = 1e-5,
                       .placement = "reordered",
                       .qk_norm = QkNorm::kAllHeads};
  Recipe recipe = llama(config, form);
  set_windows(
      recipe, config, [](std::size_t l) { return (l + 1) % 4 != 0; }, &form.rotary);
  return recipe;
}

/// Every fourth layer has no positions; in some files that layer sees a window.
Recipe smollm3(const Config& config) {
  Recipe recipe = llama(config, {.rotary = {.base = 2e6}, .output = ModelOutput::kTiedLogits});
  const std::size_t interval = config.size("no_rope_layer_interval", 4);
  std::vector<double> turns;
  for (std::size_t l = 0; l < recipe.layers(); ++l) turns.push_back((l + 1) % interval != 0);
  if (config.has("no_rope_layers")) turns = config.numbers("no_rope_layers");
  if (turns.size() != recipe.layers()) {
    config.refuse("no_rope_layers has {} entries for {} layers", turns.size(), recipe.layers());
  }
  for (std::size_t l = 0; l < recipe.layers(); ++l) {
    if (turns[l] == 0) set_rotary(recipe.attention[l], {});
  }
  if (!config.flag("use_sliding_window", false)) return recipe;
  set_windows(recipe, config, [&](std::size_t l) { return turns[l] == 0; });
  return recipe;
}

Recipe seed_oss(const Config& config) {
  if (config.flag("attention_out_bias", false))
    config.refuse("attention_out_bias is not supported");
  return llama(config, {.qkv_bias = Bias::kYes, .knows_attention_bias = true});
}

/// Limits the run to the first `layers` layers, because the others have an unsupported part.
void run_first(Recipe& recipe, std::size_t layers, std::string unknown_part) {
  if (layers >= recipe.layers()) return;
  recipe.unknown_part = std::move(unknown_part);
  recipe.layers_run = layers;
  recipe.output = ModelOutput::kHidden;
  recipe.final_norm = Slot::kNothing;
}

/// Latent attention; the first layers have a feed-forward, and the others experts.
Recipe deepseek_v3(const Config& config) {
  const std::size_t turning = config.size("qk_rope_head_dim", 64);
  const std::size_t d_head = config.size("qk_nope_head_dim", 128) + turning;
  const bool neighbors = config.flag("rope_interleave", true);
  Recipe recipe =
      llama(config, {.rotary_pairs = neighbors ? RotaryPairs::kNeighbors : RotaryPairs::kHalves,
                     .d_head = d_head,
                     .d_turning = turning});
  const double score_gain = read_rotary(config, {}, turning).score_gain;
  for (AttentionForm& attention : recipe.attention) {
    attention.n_kv_heads = recipe.block.n_heads;
    attention.d_value = config.size("v_head_dim", 128);
    attention.latent = {.rank = config.size("kv_lora_rank", 512),
                        .query_rank = config.size("q_lora_rank", 0)};
    attention.score_scale = score_gain / std::sqrt(static_cast<double>(d_head));
    attention.norm.epsilon = 1e-6;  // the library's value, which ignores rms_norm_eps
  }
  run_first(recipe, static_cast<std::size_t>(config.number("first_k_dense_replace", 3)),
            "routed experts");
  return recipe;
}

/// No layer is run: the first layers have linear attention, and the others a gate after attention.
Recipe qwen3_next(const Config& config) {
  Recipe recipe = llama(config, {.rotary = {.share = 0.25}, .qk_norm = QkNorm::kHead});
  run_first(recipe, 0, "linear attention, gated attention and routed experts");
  return recipe;
}

/// Every layer has attention sinks and experts; every second layer, beginning with the first, sees
/// a window.
Recipe gpt_oss(const Config& config) {
  Recipe recipe = llama(config, {.rotary = {.base = 150'000},
                                 .epsilon = 1e-5,
                                 .qkv_bias = Bias::kYes,
                                 .knows_attention_bias = true});
  if (recipe.attention.front().qkv_bias == Bias::kNo)
    config.refuse("attention_bias false is not supported");
  if (config.number("swiglu_limit", 7) != 7 || config.number("swiglu_alpha", 1.702) != 1.702)
    config.refuse(
        "a swiglu_limit other than 7 or a swiglu_alpha other than 1.702 is not supported");
  BlockOptions& block = recipe.block;
  block.bias = Bias::kYes;
  block.feed_forward = FeedForwardKind::kClampedSwiGlu;
  block.experts = {.count = config.size("num_local_experts"),
                   .chosen = config.size("num_experts_per_tok")};
  if (block.experts.chosen > block.experts.count) {
    config.refuse("num_experts_per_tok is {}, must be at most {}", block.experts.chosen,
                  block.experts.count);
  }
  for (AttentionForm& attention : recipe.attention) attention.has_sinks = true;
  set_windows(recipe, config, [](std::size_t l) { return l % 2 == 0; });
  return recipe;
}

Recipe ernie4_5(const Config& config) {
  if (config.flag("use_bias", false)) config.refuse("use_bias is not supported");
  return llama(config, {.rotary = {.base = 500'000},
                        .rotary_pairs = RotaryPairs::kNeighbors,
                        .epsilon = 1e-5,
                        .output = ModelOutput::kTiedLogits});
}

/// Half of each head's features are rotated, in pairs of neighbours.
Recipe glm(const Config& config, std::string_view placement) {
  return llama(config, {.rotary = {.share = 0.5},
                        .rotary_pairs = RotaryPairs::kNeighbors,
                        .epsilon = 1.5625e-7,
                        .placement = placement,
                        .qkv_bias = Bias::kYes,
                        .knows_attention_bias = true});
}

/// Embeddings are multiplied by √d_model, and the feed-forward is a GeGLU. The first checkpoints
/// have "hidden_act": "gelu", but mean the approximation by tanh.
Recipe gemma(const Config& config, LlamaForm form) {
  form.output = ModelOutput::kTiedLogits;
  form.activation_key = "hidden_activation";
  form.activation = "gelu_pytorch_tanh";
  Recipe recipe = llama(config, form);
  recipe.embedding_scale = std::sqrt(static_cast<double>(recipe.block.d_model));
  return recipe;
}

/// Reads the score factor 1/√query_pre_attn_scalar and the soft caps of Gemma 2 and 3.
void read_scores(Recipe& recipe, const Config& config) {
  for (AttentionForm& attention : recipe.attention) {
    attention.score_scale = 1 / std::sqrt(config.above_0("query_pre_attn_scalar", 256));
    attention.soft_cap = config.number("attn_logit_softcapping", 0);
  }
  recipe.logit_cap = config.number("final_logit_softcapping", 0);
}

Recipe gemma2(const Config& config) {
  Recipe recipe = gemma(config, {.placement = "sandwich"});
  read_scores(recipe, config);
  set_windows(recipe, config, [](std::size_t l) { return l % 2 == 0; });
  return recipe;
}

Recipe gemma3(const Config& config) {
  Recipe recipe =
      gemma(config, {.rotary = {.base = 1e6}, .placement = "sandwich", .qk_norm = QkNorm::kHead});
  read_scores(recipe, config);
  const std::size_t period = config.size("sliding_window_pattern", 6);
  const RotaryDefaults rotary{.base_key = "rope_local_base_freq"};
  set_windows(
      recipe, config, [&](std::size_t l) { return (l + 1) % period != 0; }, &rotary);
  return recipe;
}

/// Both sublayers read the layer's input, each with its own norm:
///
///     y = x + attention(norm(x)) + feed_forward(norm'(x))
///
/// The placement has two lanes; the second keeps x for the feed-forward.
Placement side_by_side() {
  Placement row{.before = Slot::kNorm, .final_norm = Slot::kNorm};
  row.lanes.least = row.lanes.usual = row.lanes.most = 2;
  row.lanes.read.base = [](const Place& place, std::size_t, std::size_t from) {
    return from == place.site() % 2 ? 1.0 : 0.0;
  };
  row.lanes.carry.base = [](const Place& place, std::size_t to, std::size_t from) {
    return from == (place.site() % 2 == 0 ? 0 : to) ? 1.0 : 0.0;
  };
  row.lanes.write.base = [](const Place&, std::size_t to, std::size_t) {
    return to == 0 ? 1.0 : 0.0;
  };
  row.lanes.exit.base = [](const Place&, std::size_t, std::size_t from) {
    return from == 0 ? 1.0 : 0.0;
  };
  return row;
}

Recipe gpt_neox(const Config& config) {
  Recipe recipe;
  recipe.vocabulary = config.size("vocab_size");
  BlockOptions& block = recipe.block;
  block.d_model = config.size("hidden_size");
  block.n_heads = config.size("num_attention_heads");
  block.d_ff = config.size("intermediate_size");
  block.feed_forward =
      feed_forward(config, config.word("hidden_act", "gelu"), &NamedActivation::plain);
  block.norm.epsilon = config.number("layer_norm_eps", 1e-5);
  if (!config.flag("attention_bias", true)) config.refuse("attention_bias false is not supported");
  AttentionForm attention{.d_head = head_size(config, block.d_model / block.n_heads)};
  RotaryForm rotary =
      read_rotary(config, {.share = 0.25, .base_key = "rotary_emb_base", .share_key = "rotary_pct"},
                  attention.d_head);
  recipe.longest = rotary.longest;
  set_rotary(attention, std::move(rotary));
  set_layers(recipe, config, "num_hidden_layers", "pre", attention);
  if (config.flag("use_parallel_residual", true)) {
    const Placement row = side_by_side();
    recipe.placements.assign(recipe.layers(), {row, row});
  }
  recipe.output =
      config.flag("tie_word_embeddings", false) ? ModelOutput::kTiedLogits : ModelOutput::kLogits;
  return recipe;
}

Recipe t5(const Config& config) {
  Recipe recipe;
  recipe.vocabulary = config.size("vocab_size");
  BlockOptions& block = recipe.block;
  block.d_model = config.size("d_model");
  block.n_heads = config.size("num_heads");
  block.d_ff = config.size("d_ff");
  block.norm.epsilon = config.number("layer_norm_epsilon", 1e-6);
  block.affine = Affine::kGamma;
  block.bias = Bias::kNo;
  const std::string feed = config.word("feed_forward_proj", "relu");
  if (feed == "gated-gelu") {  // here GELU is the approximation
    block.feed_forward = FeedForwardKind::kGeGluTanh;
  } else {
    block.feed_forward = feed_forward(config, feed, &NamedActivation::plain);
  }
  const AttentionForm attention{
      .d_head = config.size("d_kv"),
      .relative_bias = {.buckets = config.size("relative_attention_num_buckets", 32),
                        .max_distance = config.size("relative_attention_max_distance", 128)}};
  const RelativeBias& bias = attention.relative_bias;
  if (bias.buckets < 4 || bias.buckets % 4 != 0 || bias.max_distance <= bias.buckets / 4) {
    config.refuse(
        "relative_attention_num_buckets {} and relative_attention_max_distance {}: the "
        "first must be a multiple of 4, the second more than a quarter of it",
        bias.buckets, bias.max_distance);
  }
  set_layers(recipe, config, "num_layers", "pre", attention);
  recipe.order = AttentionMask::Order::kAny;
  recipe.output = ModelOutput::kHidden;
  return recipe;
}

struct Family {
  std::string_view name;
  Recipe (*read)(const Config&);
};
constexpr Family kFamilies[] = {
    {"gpt2", gpt2},
    {"bert", bert},
    {"llama", [](const Config& c) { return llama(c, {}); }},
    {"qwen2", [](const Config& c) { return qwen(c, {.qkv_bias = Bias::kYes}); }},
    {"qwen3", [](const Config& c) { return qwen(c, {.qk_norm = QkNorm::kHead}); }},
    {"gemma", [](const Config& c) { return gemma(c, {}); }},
    {"gemma2", gemma2},
    {"gemma3_text", gemma3},
    {"olmo2",
     [](const Config& c) {
       return llama(c, {.rotary = {.base = 500'000},
                        .epsilon = 1e-5,
                        .placement = "reordered",
                        .qk_norm = QkNorm::kAllHeads});
     }},
    {"olmo3", olmo3},
    {"mistral", [](const Config& c) { return mistral(c, {}); }},
    {"phi3", [](const Config& c) { return mistral(c, {.epsilon = 1e-5}); }},
    {"glm", [](const Config& c) { return glm(c, "pre"); }},
    {"glm4", [](const Config& c) { return glm(c, "sandwich"); }},
    {"gpt_neox", gpt_neox},
    {"smollm3", smollm3},
    {"seed_oss", seed_oss},
    {"ernie4_5", ernie4_5},
    {"gpt_oss", gpt_oss},
    {"deepseek_v3", deepseek_v3},
    {"qwen3_next", qwen3_next},
    {"t5", t5},
};

}  // namespace

std::vector<std::string_view> families() {
  std::vector<std::string_view> names;
  for (const Family& one : kFamilies) names.push_back(one.name);
  return names;
}

Recipe parse_recipe_as(std::string_view family, const std::string& text, const std::string& file) {
  const io::Json object = io::parse_json(text, file);
  const Config config(object, file);
  Recipe recipe = find_named(std::span<const Family>(kFamilies), "family", family).read(config);
  recipe.family = family;
  const FamilyFacts facts = family_facts(family);
  recipe.set_norm_kind(facts.norm.value());
  recipe.set_gamma_form(facts.gamma_form.value());
  if (!facts.has_scaled_scores) {
    for (AttentionForm& form : recipe.attention) form.score_scale = 1;
  }
  return recipe;
}

Recipe parse_recipe(const std::string& text, const std::string& file, const TensorList& tensors) {
  const io::Json object = io::parse_json(text, file);
  const Config config(object, file);
  const std::string name = config.word("model_type");
  const std::vector<std::string_view> known = families();
  if (std::ranges::find(known, name) == known.end()) {
    config.refuse("model_type is '{}'; expected one of {}; {}", name, fmt::join(known, " "),
                  nearest_family(name, text, tensors ? tensors() : std::vector<std::string>{}));
  }
  return parse_recipe_as(name, text, file);
}

void Recipe::set_epsilon(double epsilon) {
  block.norm.epsilon = epsilon;
  for (AttentionForm& form : attention) form.norm.epsilon = epsilon;
}

void Recipe::set_norm_kind(NormKind kind) {
  block.norm.kind = kind;
  for (AttentionForm& form : attention) form.norm.kind = kind;
}

void Recipe::set_gamma_form(GammaForm form) {
  block.norm.gamma_form = form;
  for (AttentionForm& one : attention) one.norm.gamma_form = form;
}

Recipe recipe_of(const DecoderOptions& options) {
  Recipe recipe{
      .family = "addnorm",
      .vocabulary = options.vocabulary,
      .positions = options.context,
      .block = options.block,
      .placements = options.placements,
      .attention = {options.placements.size(), options.block.attention},
      .output = options.head == Head::kTied ? ModelOutput::kTiedLogits : ModelOutput::kLogits};
  recipe.final_norm = options.placements.back().feed_forward.final_norm;
  if (options.final_norm != FinalNorm::kAsPlacement) {
    recipe.final_norm = options.final_norm == FinalNorm::kYes ? Slot::kNorm : Slot::kNothing;
  }
  return recipe;
}

}  // namespace addnorm::model
