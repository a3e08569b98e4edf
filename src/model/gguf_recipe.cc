#include "model/gguf_recipe.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "base/require.h"
#include "model/config.h"

namespace addnorm::model {
namespace {

using io::Json;

/// An architecture of GGUF files, and its family in a config.json.
struct Architecture {
  std::string_view name;
  std::string_view family;
  const char* epsilon = "attention.layer_norm_rms_epsilon";
  std::size_t window_period = 0;  ///< each window_period-th layer sees everything; 0: no windows
  bool is_permuted = false;       ///< rows of queries and keys are ordered by pairs of neighbours
};
constexpr const char* kLayerNorm = "attention.layer_norm_epsilon";
constexpr Architecture kArchitectures[] = {
    {.name = "llama", .family = "llama", .is_permuted = true},
    {"qwen2", "qwen2"},
    {"qwen3", "qwen3"},
    {"gemma", "gemma"},
    {.name = "gemma2", .family = "gemma2", .window_period = 2},
    {.name = "gemma3", .family = "gemma3_text", .window_period = 6},
    {"phi3", "phi3"},
    {"gpt2", "gpt2", kLayerNorm},
    {"gptneox", "gpt_neox", kLayerNorm},
    {.name = "olmo2", .family = "olmo2", .window_period = 4},
    {"glm4", "glm4"},
    {.name = "smollm3", .family = "smollm3", .is_permuted = true},
    {"seed_oss", "seed_oss"},
    {"ernie4_5", "ernie4_5"},
    {"bert", "bert", kLayerNorm},
};

/// Metadata that would make an unsupported model unless it is 0 or false.
struct UnknownKey {
  const char* key;
  const char* name;
};
constexpr UnknownKey kUnknownKeys[] = {
    {"expert_count", "experts"},
    {"attention.kv_lora_rank", "latent attention"},
    {"attention.max_alibi_bias", "ALiBi"},
    {"attention.clamp_kqv", "clamped queries, keys and values"},
    {"attention.scale", "another scale of scores"},
    {"embedding_scale", "another scale of embeddings"},
    {"residual_scale", "another scale of branches"},
    {"logit_scale", "another scale of logits"},
    {"nextn_predict_layers", "layers that predict later tokens"},
    {"rope.dimension_sections", "rotary positions of several dimensions"},
    {"rope.scaling.yarn_log_multiplier", "other gains of YaRN"},
};

/// A number's names in GGUF and in config.json; GPT-2's config has other names.
struct Number {
  const char* theirs;
  const char* ours;
  const char* of_gpt2 = nullptr;
};
constexpr Number kSizes[] = {
    {"embedding_length", "hidden_size", "n_embd"},
    {"block_count", "num_hidden_layers", "n_layer"},
    {"feed_forward_length", "intermediate_size", "n_inner"},
    {"context_length", "max_position_embeddings", "n_positions"},
    {"attention.head_count", "num_attention_heads", "n_head"},
};
constexpr Number kSizesOfSome[] = {
    {"attention.head_count_kv", "num_key_value_heads"},
    {"attention.key_length", "head_dim"},
};

/// Returns the architecture's metadata. A list with the same number for each layer becomes that
/// number.
Json metadata_of(const io::Gguf& file, const Architecture& architecture) {
  Json object = Json::object();
  const std::string prefix = fmt::format("{}.", architecture.name);
  for (const auto& [key, value] : file.metadata) {
    if (!key.starts_with(prefix)) continue;
    const bool is_one = value.is_array() && !value.empty() && value[0].is_number() &&
                        std::ranges::count(value, value[0]) == static_cast<long>(value.size());
    object[key] = is_one ? value[0] : value;
  }
  return object;
}

/// Reads the divisors of the frequencies: a number above 0 for each pair of features of a head.
std::vector<double> read_factors(const io::StoredTensor& tensor, const std::string& file) {
  constexpr std::size_t kMostPairs = 4096;
  require(tensor.count() <= kMostPairs, "{}: tensor '{}' has {} values, must have at most {}", file,
          tensor.name, tensor.count(), kMostPairs);
  std::vector<double> factors = io::tensor_values<double>(tensor);
  for (const double factor : factors) {
    require(std::isfinite(factor) && factor > 0,
            "{}: tensor '{}' holds {}, must hold numbers above 0", file, tensor.name, factor);
  }
  return factors;
}

/// Translates a file's metadata to a config.json.
class Translation {
 public:
  Translation(const io::Gguf& file, const Architecture& architecture)
      : file_(file),
        architecture_(architecture),
        object_(metadata_of(file, architecture)),
        metadata_(object_, file.file) {}

  Json config() {
    refuse_unsupported();
    add_sizes();
    add_epsilon();
    add_positions();
    add_scores();
    add_windows();
    add_others();
    return std::move(config_);
  }

 private:
  bool is(std::string_view architecture) const { return architecture_.name == architecture; }
  std::string key(std::string_view behind) const {
    return fmt::format("{}.{}", architecture_.name, behind);
  }
  bool has(std::string_view behind) const { return metadata_.has(key(behind).c_str()); }
  bool flag(std::string_view behind, bool absent) const {
    return metadata_.flag(key(behind).c_str(), absent);
  }
  std::size_t size(std::string_view behind) const { return metadata_.size(key(behind).c_str()); }
  double number(std::string_view behind, double absent) const {
    return metadata_.number(key(behind).c_str(), absent);
  }
  std::size_t rows_of(std::string_view name) const {
    const io::StoredTensor* tensor = file_.find(name);
    require(tensor != nullptr, "{}: there is no tensor '{}'", file_.file, name);
    return tensor->shape.empty() ? 0 : tensor->shape.front();
  }

  std::size_t split_width() const {
    return size("embedding_length") / size("attention.head_count");
  }

  void refuse_unsupported() const;
  void add_sizes();
  void add_epsilon();
  void add_positions();
  Json scaling() const;
  void add_scores();
  void add_windows();
  std::vector<bool> local_layers() const;
  void add_others();

  const io::Gguf& file_;
  const Architecture& architecture_;
  Json object_;
  Config metadata_;
  Json config_ = Json::object();
};

void Translation::refuse_unsupported() const {
  for (const auto& [behind, name] : kUnknownKeys) {
    if (!has(behind) || object_[key(behind)] == 0) continue;
    metadata_.refuse("{} is {}: it has {}, not supported here", key(behind),
                     io::excerpt(object_[key(behind)]), name);
  }
  if (!is("bert") && !flag("attention.causal", true)) {
    metadata_.refuse("{} is false, must be true here", key("attention.causal"));
  }
}

void Translation::add_sizes() {
  for (const auto& [theirs, ours, of_gpt2] : kSizes) {
    config_[ours] = size(theirs);
    config_[of_gpt2] = size(theirs);
  }
  for (const auto& [theirs, ours, none] : kSizesOfSome) {
    if (has(theirs)) config_[ours] = size(theirs);
  }
  const std::string value = key("attention.value_length");
  const std::size_t d_head = metadata_.size(key("attention.key_length").c_str(), 0);
  if (has("attention.value_length") && d_head > 0 && metadata_.size(value.c_str()) != d_head) {
    metadata_.refuse("{} is {}, must be that of keys, {}", value, metadata_.size(value.c_str()),
                     d_head);
  }
  config_["vocab_size"] = rows_of("token_embd.weight");
  if (is("bert")) config_["type_vocab_size"] = rows_of("token_types.weight");
}

/// Adds ε under the names of all families.
void Translation::add_epsilon() {
  const double epsilon = metadata_.number(key(architecture_.epsilon).c_str());
  for (const char* name : {"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon"}) {
    config_[name] = epsilon;
  }
}

/// Adds the rotary positions, if some features are rotated.
void Translation::add_positions() {
  config_["rope_theta"] = config_["rotary_emb_base"] = number("rope.freq_base", 10'000);
  config_["rope_local_base_freq"] = number("rope.freq_base_swa", 10'000);
  const std::size_t d_head =
      has("attention.key_length") ? size("attention.key_length") : split_width();
  const std::size_t turning = metadata_.size(key("rope.dimension_count").c_str(), d_head);
  // Half a feature is added to a partial rotation: rounding must not remove one.
  const double share = turning == d_head
                           ? 1
                           : (static_cast<double>(turning) + 0.5) /
                                 static_cast<double>(std::max<std::size_t>(d_head, 1));
  config_["partial_rotary_factor"] = config_["rotary_pct"] = share;
  const Json scaled = scaling();
  if (!scaled.empty()) config_["rope_scaling"] = scaled;
}

/// LongRoPE's lists are tensors, and the files of Phi-3 do not name it. For other files a factor
/// without a type means "linear".
Json Translation::scaling() const {
  Json scaling = Json::object();
  const auto copy = [&](const char* behind, const char* name) {
    if (has(behind)) scaling[name] = number(behind, 0);
  };
  if (has("rope.scaling.original_context_length")) {
    scaling["original_max_position_embeddings"] = size("rope.scaling.original_context_length");
  }
  if (const io::StoredTensor* factors = file_.find("rope_factors_short.weight")) {
    scaling["rope_type"] = "longrope";
    scaling["short_factor"] = read_factors(*factors, file_.file);
    copy("rope.scaling.attn_factor", "attention_factor");
    return scaling;
  }
  const double factor = number("rope.scaling.factor", number("rope.scale_linear", 0));
  const std::string type = metadata_.word(key("rope.scaling.type").c_str(), "linear");
  if (type == "none" || factor == 0) return Json::object();
  scaling["rope_type"] = type;
  scaling["factor"] = factor;
  copy("rope.scaling.yarn_attn_factor", "attention_factor");
  copy("rope.scaling.yarn_beta_fast", "beta_fast");
  copy("rope.scaling.yarn_beta_slow", "beta_slow");
  return scaling;
}

/// Gemma's scores are divided by √d_head. Its models of 27 billion weights, with 46 layers (Gemma
/// 2) or 62 (Gemma 3), divide by √(d_model/heads); no file says so.
void Translation::add_scores() {
  const std::size_t layers = size("block_count");
  const bool is_largest = (is("gemma2") && layers == 46) || (is("gemma3") && layers == 62);
  config_["query_pre_attn_scalar"] =
      is_largest || !has("attention.key_length") ? split_width() : size("attention.key_length");
  config_["attn_logit_softcapping"] = number("attn_logit_softcapping", is("gemma2") ? 50 : 0);
  config_["final_logit_softcapping"] = number("final_logit_softcapping", is("gemma2") ? 30 : 0);
}

void Translation::add_windows() {
  std::size_t window = is("gemma2") ? 4096 : 0;
  const std::string own = key("attention.sliding_window");
  if (metadata_.has(own.c_str())) window = object_[own] == 0 ? 0 : metadata_.size(own.c_str());
  if (window > 0) config_["sliding_window"] = window;
  if (architecture_.window_period == 0) return;
  Json types = Json::array();
  for (const bool is_local : local_layers()) {
    types.push_back(is_local && window > 0 ? "sliding_attention" : "full_attention");
  }
  config_["layer_types"] = types;
}

/// Returns the layers with a window: those of a list of flags, or all but the last of each period.
std::vector<bool> Translation::local_layers() const {
  constexpr std::size_t kMostLayers = 1000;  // files with more layers are rejected anyway
  const std::string pattern = key("attention.sliding_window_pattern");
  if (metadata_.has(pattern.c_str()) && object_[pattern].is_array()) {
    if (!io::fits<std::vector<bool>>(object_[pattern])) {
      metadata_.refuse("{} is {}, must be a list of true and false", pattern,
                       io::excerpt(object_[pattern]));
    }
    return object_[pattern].get<std::vector<bool>>();
  }
  const std::size_t period = metadata_.size(pattern.c_str(), architecture_.window_period);
  std::vector<bool> local(std::min(size("block_count"), kMostLayers));
  for (std::size_t l = 0; l < local.size(); ++l) local[l] = (l + 1) % period != 0;
  return local;
}

void Translation::add_others() {
  config_["tie_word_embeddings"] = file_.find("output.weight") == nullptr;
  config_["use_parallel_residual"] = flag("use_parallel_residual", true);
  if (!is("qwen2") && !is("gptneox")) {  // these families always have one
    config_["attention_bias"] = file_.find("blk.0.attn_q.bias") != nullptr;
  }
}

const Architecture& architecture_of(const io::Gguf& file) {
  const auto found = file.metadata.find("general.architecture");
  require(found != file.metadata.end() && found->second.is_string(),
          "{}: there is no general.architecture", file.file);
  const auto name = found->second.get<std::string>();
  const auto* known = std::ranges::find(kArchitectures, name, &Architecture::name);
  if (known == std::end(kArchitectures)) {
    std::vector<std::string_view> names;
    for (const Architecture& one : kArchitectures) names.push_back(one.name);
    fail(fmt::format("{}: general.architecture is '{}'; expected one of {}", file.file, name,
                     fmt::join(names, " ")));
  }
  return *known;
}

/// Llama 3.1 stores the divisors of its frequencies as a tensor.
void divide_frequencies(Recipe& recipe, const io::Gguf& file) {
  const io::StoredTensor* found = file.find("rope_freqs.weight");
  if (found == nullptr) return;
  const std::vector<double> divisors = read_factors(*found, file.file);
  for (AttentionForm& form : recipe.attention) {
    if (form.rope.empty()) continue;
    require(divisors.size() == form.rope.size(),
            "{}: tensor 'rope_freqs.weight' has {} values, must have {}, one for each pair of "
            "features",
            file.file, divisors.size(), form.rope.size());
    for (std::size_t i = 0; i < divisors.size(); ++i) form.rope[i] /= divisors[i];
  }
}

}  // namespace

Recipe gguf_recipe(const io::Gguf& file) {
  const Architecture& architecture = architecture_of(file);
  const Json config = Translation(file, architecture).config();
  const bool has_windows = config.contains("sliding_window");
  const bool is_olmo3 = architecture.name == "olmo2" && has_windows;
  Recipe recipe = parse_recipe_as(is_olmo3 ? "olmo3" : architecture.family, config.dump(),
                                  file.file + ", as config.json");
  recipe.is_gguf = true;
  divide_frequencies(recipe, file);
  recipe.set_gamma_form(GammaForm::kPlain);
  if (!architecture.is_permuted) return recipe;
  for (AttentionForm& form : recipe.attention) form.rotary_pairs = RotaryPairs::kNeighbors;
  return recipe;
}

}  // namespace addnorm::model
