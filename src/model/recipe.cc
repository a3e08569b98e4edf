#include "model/recipe.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string_view>

#include "io/json.h"

namespace addnorm::model {
namespace {

/// A config.json, read key by key.
class Config {
 public:
  Config(const io::Json& object, std::string file) : object_(object), file_(std::move(file)) {}

  bool has(const char* key) const { return object_.contains(key) && !object_.at(key).is_null(); }

  std::size_t size(const char* key) const {
    const io::Json& value = at(key);
    require(value.is_number_unsigned() && value.get<std::size_t>() > 0 &&
                value.get<std::size_t>() <= kMost,
            "{}: {} is {}, must be a whole number from 1 to {}", file_, key, value.dump(), kMost);
    return value.get<std::size_t>();
  }
  std::size_t size(const char* key, std::size_t absent) const {
    return has(key) ? size(key) : absent;
  }

  double number(const char* key) const {
    const io::Json& value = at(key);
    require(value.is_number() && value.get<double>() >= 0 && std::isfinite(value.get<double>()),
            "{}: {} is {}, must be a number from 0 on", file_, key, value.dump());
    return value.get<double>();
  }
  double above_0(const char* key, double absent) const {
    const double value = number(key, absent);
    require(value > 0, "{}: {} is 0, must be above 0", file_, key);
    return value;
  }
  double above_0(const char* key) const {
    at(key);
    return above_0(key, 0);
  }
  double number(const char* key, double absent) const { return has(key) ? number(key) : absent; }

  bool flag(const char* key, bool absent) const {
    if (!has(key)) return absent;
    const io::Json& value = at(key);
    require(value.is_boolean(), "{}: {} is {}, must be true or false", file_, key, value.dump());
    return value.get<bool>();
  }

  std::string word(const char* key) const {
    const io::Json& value = at(key);
    require(value.is_string(), "{}: {} is {}, must be a word", file_, key, value.dump());
    return value.get<std::string>();
  }
  std::string word(const char* key, const char* absent) const {
    return has(key) ? word(key) : absent;
  }

  Config object(const char* key) const {
    const io::Json& value = at(key);
    require(value.is_object(), "{}: {} is {}, must be an object", file_, key, value.dump());
    return {value, file_ + ": " + key};
  }

  std::vector<std::string> words(const char* key) const {
    const io::Json& value = at(key);
    require(value.is_array(), "{}: {} is {}, must be a list", file_, key, value.dump());
    std::vector<std::string> result;
    for (const io::Json& one : value) {
      require(one.is_string(), "{}: {} holds {}, must hold words", file_, key, one.dump());
      result.push_back(one.get<std::string>());
    }
    return result;
  }

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(file_ + ": " + fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  static constexpr std::size_t kMost = 1'000'000'000;

  const io::Json& at(const char* key) const {
    require(has(key), "{}: there is no {}", file_, key);
    return object_.at(key);
  }

  const io::Json& object_;
  std::string file_;
};

struct NamedActivation {
  std::string_view name;
  FeedForwardKind plain;
  FeedForwardKind gated;
};
constexpr FeedForwardKind kUnknown{-1};
constexpr std::array<NamedActivation, 6> kActivations{{
    {"relu", FeedForwardKind::kRelu, kUnknown},
    {"gelu", FeedForwardKind::kGelu, kUnknown},
    {"gelu_new", FeedForwardKind::kGeluTanh, FeedForwardKind::kGeGluTanh},
    {"gelu_pytorch_tanh", FeedForwardKind::kGeluTanh, FeedForwardKind::kGeGluTanh},
    {"silu", kUnknown, FeedForwardKind::kSwiGlu},
    {"swish", kUnknown, FeedForwardKind::kSwiGlu},
}};

FeedForwardKind feed_forward(const Config& config, const std::string& name,
                             FeedForwardKind NamedActivation::*kind) {
  for (const NamedActivation& row : kActivations) {
    if (row.name == name && row.*kind != kUnknown) return row.*kind;
  }
  config.refuse("its activation '{}' is not known here", name);
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
    config.refuse("scale_attn_by_inverse_layer_idx is not known here");
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
  if (config.flag("is_decoder", false)) config.refuse("is_decoder is not known here");
  const std::string positions = config.word("position_embedding_type", "absolute");
  if (positions != "absolute")
    config.refuse("positions of type '{}' are not known here", positions);
  set_layers(recipe, config, "num_hidden_layers", "post", {});
  recipe.order = AttentionMask::Order::kAny;
  recipe.output = ModelOutput::kMaskedLogits;
  return recipe;
}

/// Llama 3's: long waves turn `factor` times slower, those in between in proportion.
void slow_long_waves(std::vector<double>& frequencies, const Config& scaling) {
  const double factor = scaling.number("factor");
  const double low = scaling.number("low_freq_factor");
  const double high = scaling.number("high_freq_factor");
  const auto context = static_cast<double>(scaling.size("original_max_position_embeddings"));
  if (!(factor > 0 && high > low && low > 0)) {
    scaling.refuse("factor {}, low_freq_factor {}, high_freq_factor {} are in no order", factor,
                   low, high);
  }
  for (double& frequency : frequencies) {
    const double turns = context * frequency / (2 * std::numbers::pi);
    const double kept = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    frequency *= kept + (1 - kept) / factor;
  }
}

/// As an object says that stands under rope_scaling or rope_parameters.
std::vector<double> scaled(std::vector<double> frequencies, const Config& scaling) {
  const std::string kind =
      scaling.has("rope_type") ? scaling.word("rope_type") : scaling.word("type", "default");
  if (kind == "llama3") {
    slow_long_waves(frequencies, scaling);
  } else if (kind == "linear") {
    const double factor = scaling.above_0("factor");
    for (double& frequency : frequencies) frequency /= factor;
  } else if (kind != "default") {
    scaling.refuse("a type '{}' is not known here", kind);
  }
  return frequencies;
}

/// Of the layers that see everything. Newer files have it all in rope_parameters, by the kind of
/// layer where there are several.
std::vector<double> rope(const Config& config, double base, std::size_t d_head) {
  if (config.has("rope_parameters")) {
    const Config all = config.object("rope_parameters");
    const Config own = all.has("full_attention") ? all.object("full_attention") : all;
    return scaled(rope_frequencies(own.above_0("rope_theta", base), d_head), own);
  }
  std::vector<double> frequencies = rope_frequencies(config.above_0("rope_theta", base), d_head);
  if (!config.has("rope_scaling")) return frequencies;
  return scaled(std::move(frequencies), config.object("rope_scaling"));
}

/// Of Gemma 3's layers that see a window.
std::vector<double> local_rope(const Config& config, std::size_t d_head) {
  constexpr double kBase = 10'000;
  if (config.has("rope_parameters")) {
    const Config own = config.object("rope_parameters").object("sliding_attention");
    return scaled(rope_frequencies(own.above_0("rope_theta", kBase), d_head), own);
  }
  return rope_frequencies(config.above_0("rope_local_base_freq", kBase), d_head);
}

/// What Llama, Qwen, Gemma and OLMo have in common, as Llama has it.
struct LlamaForm {
  double rope_base = 10'000;
  double epsilon = 1e-6;
  ModelOutput output = ModelOutput::kLogits;  ///< where tie_word_embeddings does not say
  std::string_view placement = "pre";
  QkNorm qk_norm = QkNorm::kNone;
  Bias qkv_bias = Bias::kNo;
  GammaForm gamma = GammaForm::kPlain;
  const char* activation_key = "hidden_act";
  const char* activation = "silu";  ///< where that key does not say
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
  block.norm = {.kind = NormKind::kRms,
                .epsilon = config.number("rms_norm_eps", form.epsilon),
                .gamma_form = form.gamma};
  block.affine = Affine::kGamma;
  block.bias = Bias::kNo;
  if (config.flag("attention_bias", false)) config.refuse("attention_bias is not known here");
  if (config.flag("mlp_bias", false)) config.refuse("mlp_bias is not known here");
  AttentionForm attention{
      .n_kv_heads = config.size("num_key_value_heads", block.n_heads),
      .d_head = config.size("head_dim", std::max<std::size_t>(block.d_model / block.n_heads, 1)),
      .qkv_bias = form.qkv_bias,
      .qk_norm = form.qk_norm,
      .norm = block.norm};
  constexpr std::size_t kWidest = 8192;
  if (attention.d_head % 2 != 0 || attention.d_head > kWidest) {
    config.refuse("head_dim is {}, must be even and at most {}", attention.d_head, kWidest);
  }
  attention.rope = rope(config, form.rope_base, attention.d_head);
  set_layers(recipe, config, "num_hidden_layers", form.placement, attention);
  const bool tied = config.flag("tie_word_embeddings", form.output == ModelOutput::kTiedLogits);
  recipe.output = tied ? ModelOutput::kTiedLogits : ModelOutput::kLogits;
  return recipe;
}

Recipe qwen(const Config& config, const LlamaForm& form) {
  if (config.flag("use_sliding_window", false)) {
    config.refuse("use_sliding_window is not known here");
  }
  return llama(config, form);
}

/// γ is stored as γ − 1, embeddings come times √d_model, the feed-forward is a GeGLU. The first
/// checkpoints say "hidden_act": "gelu", and mean the approximation by tanh as well.
Recipe gemma(const Config& config, LlamaForm form) {
  form.output = ModelOutput::kTiedLogits;
  form.gamma = GammaForm::kOnePlus;
  form.activation_key = "hidden_activation";
  form.activation = "gelu_pytorch_tanh";
  Recipe recipe = llama(config, form);
  recipe.embedding_scale = std::sqrt(static_cast<double>(recipe.block.d_model));
  return recipe;
}

/// Whether each layer sees a window only: "layer_types", or all but every `period`th.
std::vector<bool> local_layers(const Config& config, std::size_t layers, std::size_t period) {
  std::vector<bool> local(layers);
  if (!config.has("layer_types")) {
    for (std::size_t l = 0; l < layers; ++l) local[l] = (l + 1) % period != 0;
    return local;
  }
  const std::vector<std::string> types = config.words("layer_types");
  if (types.size() != layers) {
    config.refuse("layer_types has {} entries for {} layers", types.size(), layers);
  }
  for (std::size_t l = 0; l < layers; ++l) {
    local[l] = types[l] == "sliding_attention";
    if (!local[l] && types[l] != "full_attention") {
      config.refuse("layer_types: '{}' is not known here", types[l]);
    }
  }
  return local;
}

/// Scores times 1/√query_pre_attn_scalar and soft caps, as Gemma 2 and 3 say.
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
  const std::vector<bool> local = local_layers(config, recipe.layers(), 2);
  for (std::size_t l = 0; l < recipe.layers(); ++l) {
    if (local[l]) recipe.attention[l].window = config.size("sliding_window", 4096);
  }
  return recipe;
}

Recipe gemma3(const Config& config) {
  Recipe recipe =
      gemma(config, {.rope_base = 1e6, .placement = "sandwich", .qk_norm = QkNorm::kHead});
  read_scores(recipe, config);
  const std::vector<bool> local =
      local_layers(config, recipe.layers(), config.size("sliding_window_pattern", 6));
  for (std::size_t l = 0; l < recipe.layers(); ++l) {
    AttentionForm& attention = recipe.attention[l];
    if (!local[l]) continue;
    attention.window = config.size("sliding_window", 4096);
    attention.rope = local_rope(config, attention.d_head);
  }
  return recipe;
}

Recipe t5(const Config& config) {
  Recipe recipe;
  recipe.vocabulary = config.size("vocab_size");
  BlockOptions& block = recipe.block;
  block.d_model = config.size("d_model");
  block.n_heads = config.size("num_heads");
  block.d_ff = config.size("d_ff");
  block.norm = {.kind = NormKind::kRms, .epsilon = config.number("layer_norm_epsilon", 1e-6)};
  block.affine = Affine::kGamma;
  block.bias = Bias::kNo;
  const std::string feed = config.word("feed_forward_proj", "relu");
  if (feed == "gated-gelu") {  // its GELU is the approximation
    block.feed_forward = FeedForwardKind::kGeGluTanh;
  } else {
    block.feed_forward = feed_forward(config, feed, &NamedActivation::plain);
  }
  const AttentionForm attention{
      .d_head = config.size("d_kv"),
      .score_scale = 1,
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
constexpr std::array<Family, 10> kFamilies{{
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
       return llama(c, {.rope_base = 500'000,
                        .epsilon = 1e-5,
                        .placement = "reordered",
                        .qk_norm = QkNorm::kAllHeads});
     }},
    {"t5", t5},
}};

}  // namespace

Recipe parse_recipe(const std::string& text, const std::string& file) {
  const io::Json object = io::parse_json(text, file);
  const Config config(object, file);
  const std::string name = config.word("model_type");
  const auto family = std::ranges::find(kFamilies, name, &Family::name);
  if (family == kFamilies.end()) {
    std::string known;
    for (const Family& one : kFamilies) known += fmt::format(" {}", one.name);
    config.refuse("model_type is '{}'; expected one of{}", name, known);
  }
  Recipe recipe = family->read(config);
  recipe.family = name;
  return recipe;
}

void Recipe::set_epsilon(double epsilon) {
  block.norm.epsilon = epsilon;
  for (AttentionForm& form : attention) form.norm.epsilon = epsilon;
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
