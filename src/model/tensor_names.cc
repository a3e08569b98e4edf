#include "model/tensor_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/require.h"
#include "model/tensor_layout.h"

namespace addnorm::model {
namespace {

constexpr std::string_view kGpt2Prefixes[] = {"", "transformer."};
constexpr Row kGpt2Layer[] = {
    {"attention_add_norm.before.gamma", "ln_1.weight"},
    {"attention_add_norm.before.beta", "ln_1.bias"},
    {"attention.query.weight", "attn.c_attn.weight", true, equal<0, 3>},
    {"attention.query.bias", "attn.c_attn.bias", false, equal<0, 3>},
    {"attention.key.weight", "attn.c_attn.weight", true, equal<1, 3>},
    {"attention.key.bias", "attn.c_attn.bias", false, equal<1, 3>},
    {"attention.value.weight", "attn.c_attn.weight", true, equal<2, 3>},
    {"attention.value.bias", "attn.c_attn.bias", false, equal<2, 3>},
    {"attention.output.weight", "attn.c_proj.weight", true},
    {"attention.output.bias", "attn.c_proj.bias"},
    {"feed_forward_add_norm.before.gamma", "ln_2.weight"},
    {"feed_forward_add_norm.before.beta", "ln_2.bias"},
    {"feed_forward.up.weight", "mlp.c_fc.weight", true},
    {"feed_forward.up.bias", "mlp.c_fc.bias"},
    {"feed_forward.down.weight", "mlp.c_proj.weight", true},
    {"feed_forward.down.bias", "mlp.c_proj.bias"},
};
constexpr Row kGpt2Others[] = {
    {"embedding.token", "wte.weight"},   {"embedding.position", "wpe.weight"},
    {"final_norm.gamma", "ln_f.weight"}, {"final_norm.beta", "ln_f.bias"},
    {"head.weight", "lm_head.weight"},
};

constexpr std::string_view kBertPrefixes[] = {"bert.", ""};
constexpr Row kBertLayer[] = {
    {"attention.query.weight", "attention.self.query.weight"},
    {"attention.query.bias", "attention.self.query.bias"},
    {"attention.key.weight", "attention.self.key.weight"},
    {"attention.key.bias", "attention.self.key.bias"},
    {"attention.value.weight", "attention.self.value.weight"},
    {"attention.value.bias", "attention.self.value.bias"},
    {"attention.output.weight", "attention.output.dense.weight"},
    {"attention.output.bias", "attention.output.dense.bias"},
    {"attention_add_norm.after.gamma", "attention.output.LayerNorm.weight"},
    {"attention_add_norm.after.gamma", "attention.output.LayerNorm.gamma"},
    {"attention_add_norm.after.beta", "attention.output.LayerNorm.bias"},
    {"attention_add_norm.after.beta", "attention.output.LayerNorm.beta"},
    {"feed_forward.up.weight", "intermediate.dense.weight"},
    {"feed_forward.up.bias", "intermediate.dense.bias"},
    {"feed_forward.down.weight", "output.dense.weight"},
    {"feed_forward.down.bias", "output.dense.bias"},
    {"feed_forward_add_norm.after.gamma", "output.LayerNorm.weight"},
    {"feed_forward_add_norm.after.gamma", "output.LayerNorm.gamma"},
    {"feed_forward_add_norm.after.beta", "output.LayerNorm.bias"},
    {"feed_forward_add_norm.after.beta", "output.LayerNorm.beta"},
};
constexpr Row kBertOthers[] = {
    {"embedding.token", "embeddings.word_embeddings.weight"},
    {"embedding.position", "embeddings.position_embeddings.weight"},
    {"embedding.token_type", "embeddings.token_type_embeddings.weight"},
    {"embedding.norm.gamma", "embeddings.LayerNorm.weight"},
    {"embedding.norm.gamma", "embeddings.LayerNorm.gamma"},
    {"embedding.norm.beta", "embeddings.LayerNorm.bias"},
    {"embedding.norm.beta", "embeddings.LayerNorm.beta"},
    {"head.transform.weight", "cls.predictions.transform.dense.weight"},
    {"head.transform.bias", "cls.predictions.transform.dense.bias"},
    {"head.norm.gamma", "cls.predictions.transform.LayerNorm.weight"},
    {"head.norm.gamma", "cls.predictions.transform.LayerNorm.gamma"},
    {"head.norm.beta", "cls.predictions.transform.LayerNorm.bias"},
    {"head.norm.beta", "cls.predictions.transform.LayerNorm.beta"},
    {"head.bias", "cls.predictions.bias"},
};

constexpr std::string_view kLlamaPrefixes[] = {"model.", "", "language_model.model.",
                                               "model.language_model.", "language_model."};
constexpr Row kLlamaOthers[] = {
    {"embedding.token", "embed_tokens.weight"},
    {"final_norm.gamma", "norm.weight"},
    {"head.weight", "lm_head.weight"},
};
constexpr Row kLlamaAttention[] = {
    {"attention.query.weight", "self_attn.q_proj.weight"},
    {"attention.query.bias", "self_attn.q_proj.bias"},
    {"attention.key.weight", "self_attn.k_proj.weight"},
    {"attention.key.bias", "self_attn.k_proj.bias"},
    {"attention.value.weight", "self_attn.v_proj.weight"},
    {"attention.value.bias", "self_attn.v_proj.bias"},
    {"attention.query_norm.gamma", "self_attn.q_norm.weight"},
    {"attention.key_norm.gamma", "self_attn.k_norm.weight"},
    {"attention.output.weight", "self_attn.o_proj.weight"},
    {"attention.output.bias", "self_attn.o_proj.bias"},
    {"attention.sinks", "self_attn.sinks"},
};
constexpr Row kLlamaFeedForward[] = {
    {"feed_forward.gate.weight", "mlp.gate_proj.weight"},
    {"feed_forward.up.weight", "mlp.up_proj.weight"},
    {"feed_forward.down.weight", "mlp.down_proj.weight"},
};
constexpr Row kPhi3Attention[] = {
    {"attention.query.weight", "self_attn.qkv_proj.weight", false, queries},
    {"attention.key.weight", "self_attn.qkv_proj.weight", false, keys},
    {"attention.value.weight", "self_attn.qkv_proj.weight", false, values},
    {"attention.output.weight", "self_attn.o_proj.weight"},
};
constexpr Row kPhi3FeedForward[] = {
    {"feed_forward.gate.weight", "mlp.gate_up_proj.weight", false, equal<0, 2>},
    {"feed_forward.up.weight", "mlp.gate_up_proj.weight", false, equal<1, 2>},
    {"feed_forward.down.weight", "mlp.down_proj.weight"},
};
constexpr Row kDeepseekAttention[] = {
    {"attention.query_latent.weight", "self_attn.q_a_proj.weight"},
    {"attention.query_norm.gamma", "self_attn.q_a_layernorm.weight"},
    {"attention.query.weight", "self_attn.q_b_proj.weight"},
    {"attention.query.weight", "self_attn.q_proj.weight"},
    {"attention.latent.weight", "self_attn.kv_a_proj_with_mqa.weight"},
    {"attention.key_norm.gamma", "self_attn.kv_a_layernorm.weight"},
    {"attention.key.weight", "self_attn.kv_b_proj.weight", false, fixed_keys},
    {"attention.value.weight", "self_attn.kv_b_proj.weight", false, latent_values},
    {"attention.output.weight", "self_attn.o_proj.weight"},
};
/// The columns of an expert's gate and up alternate. In the published files the experts are MXFP4
/// and out × in.
constexpr Row kGptOssExperts[] = {
    {"feed_forward.router.weight", "mlp.router.weight"},
    {"feed_forward.router.bias", "mlp.router.bias"},
    {"feed_forward.gate.weight", "mlp.experts.gate_up_proj", true, in_turn<0>, true},
    {"feed_forward.gate.weight", "mlp.experts.gate_up_proj_blocks", false, in_turn<0>, true},
    {"feed_forward.gate.bias", "mlp.experts.gate_up_proj_bias", false, in_turn<0>, true},
    {"feed_forward.up.weight", "mlp.experts.gate_up_proj", true, in_turn<1>, true},
    {"feed_forward.up.weight", "mlp.experts.gate_up_proj_blocks", false, in_turn<1>, true},
    {"feed_forward.up.bias", "mlp.experts.gate_up_proj_bias", false, in_turn<1>, true},
    {"feed_forward.down.weight", "mlp.experts.down_proj", true, equal<0, 1>, true},
    {"feed_forward.down.weight", "mlp.experts.down_proj_blocks", false, equal<0, 1>, true},
    {"feed_forward.down.bias", "mlp.experts.down_proj_bias", false, equal<0, 1>, true},
};
/// The same name means another slot if branches have norms after them.
constexpr Row kPreNorms[] = {
    {"attention_add_norm.before.gamma", "input_layernorm.weight"},
    {"feed_forward_add_norm.before.gamma", "post_attention_layernorm.weight"},
};
constexpr Row kBranchNorms[] = {
    {"attention_add_norm.before.gamma", "input_layernorm.weight"},
    {"attention_add_norm.inside.gamma", "post_attention_layernorm.weight"},
    {"feed_forward_add_norm.before.gamma", "pre_feedforward_layernorm.weight"},
    {"feed_forward_add_norm.inside.gamma", "post_feedforward_layernorm.weight"},
};
constexpr Row kGlm4Norms[] = {
    {"attention_add_norm.before.gamma", "input_layernorm.weight"},
    {"attention_add_norm.inside.gamma", "post_self_attn_layernorm.weight"},
    {"feed_forward_add_norm.before.gamma", "post_attention_layernorm.weight"},
    {"feed_forward_add_norm.inside.gamma", "post_mlp_layernorm.weight"},
};

constexpr std::string_view kNeoxPrefixes[] = {"gpt_neox.", ""};
constexpr Row kNeoxLayer[] = {
    {"attention_add_norm.before.gamma", "input_layernorm.weight"},
    {"attention_add_norm.before.beta", "input_layernorm.bias"},
    {"attention.query.weight", "attention.query_key_value.weight", false, in_each_head<0>},
    {"attention.query.bias", "attention.query_key_value.bias", false, in_each_head<0>},
    {"attention.key.weight", "attention.query_key_value.weight", false, in_each_head<1>},
    {"attention.key.bias", "attention.query_key_value.bias", false, in_each_head<1>},
    {"attention.value.weight", "attention.query_key_value.weight", false, in_each_head<2>},
    {"attention.value.bias", "attention.query_key_value.bias", false, in_each_head<2>},
    {"attention.output.weight", "attention.dense.weight"},
    {"attention.output.bias", "attention.dense.bias"},
    {"feed_forward_add_norm.before.gamma", "post_attention_layernorm.weight"},
    {"feed_forward_add_norm.before.beta", "post_attention_layernorm.bias"},
    {"feed_forward.up.weight", "mlp.dense_h_to_4h.weight"},
    {"feed_forward.up.bias", "mlp.dense_h_to_4h.bias"},
    {"feed_forward.down.weight", "mlp.dense_4h_to_h.weight"},
    {"feed_forward.down.bias", "mlp.dense_4h_to_h.bias"},
};
constexpr Row kNeoxOthers[] = {
    {"embedding.token", "embed_in.weight"},
    {"final_norm.gamma", "final_layer_norm.weight"},
    {"final_norm.beta", "final_layer_norm.bias"},
    {"head.weight", "embed_out.weight"},
};

constexpr std::string_view kT5Prefixes[] = {"", "transformer."};
constexpr Row kT5Layer[] = {
    {"attention_add_norm.before.gamma", "layer.0.layer_norm.weight"},
    {"attention.query.weight", "layer.0.SelfAttention.q.weight"},
    {"attention.key.weight", "layer.0.SelfAttention.k.weight"},
    {"attention.value.weight", "layer.0.SelfAttention.v.weight"},
    {"attention.output.weight", "layer.0.SelfAttention.o.weight"},
    {"feed_forward_add_norm.before.gamma", "layer.1.layer_norm.weight"},
    {"feed_forward.up.weight", "layer.1.DenseReluDense.wi.weight"},
    {"feed_forward.up.weight", "layer.1.DenseReluDense.wi_1.weight"},
    {"feed_forward.gate.weight", "layer.1.DenseReluDense.wi_0.weight"},
    {"feed_forward.down.weight", "layer.1.DenseReluDense.wo.weight"},
};
constexpr Row kT5Others[] = {
    {"embedding.token", "shared.weight"},
    {"embedding.token", "encoder.embed_tokens.weight"},
    {"final_norm.gamma", "encoder.final_layer_norm.weight"},
    // All layers add the first layer's bias.
    {"attention.relative_bias",
     "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"},
};

/// Returns a layout with Llama's names outside the layers.
constexpr Layout llama(std::string_view family, Rows attention, Rows feed_forward, Rows norms) {
  return {family, kLlamaPrefixes, "layers.{}.", attention, feed_forward, norms, kLlamaOthers};
}

constexpr Layout kLayouts[] = {
    {"gpt2", kGpt2Prefixes, "h.{}.", kGpt2Layer, {}, {}, kGpt2Others},
    {"bert", kBertPrefixes, "encoder.layer.{}.", kBertLayer, {}, {}, kBertOthers},
    llama("llama", kLlamaAttention, kLlamaFeedForward, kPreNorms),
    llama("qwen2", kLlamaAttention, kLlamaFeedForward, kPreNorms),
    llama("qwen3", kLlamaAttention, kLlamaFeedForward, kPreNorms),
    llama("qwen3_next", kLlamaAttention, kLlamaFeedForward, kPreNorms),
    llama("gemma", kLlamaAttention, kLlamaFeedForward, kPreNorms),
    llama("gemma2", kLlamaAttention, kLlamaFeedForward, kBranchNorms),
    llama("gemma3_text", kLlamaAttention, kLlamaFeedForward, kBranchNorms),
    llama("olmo2", kLlamaAttention, kLlamaFeedForward, kBranchNorms),
    llama("olmo3", kLlamaAttention, kLlamaFeedForward, kBranchNorms),
    llama("mistral", kLlamaAttention, kLlamaFeedForward, kPreNorms),
    llama("smollm3", kLlamaAttention, kLlamaFeedForward, kPreNorms),
    llama("seed_oss", kLlamaAttention, kLlamaFeedForward, kPreNorms),
    llama("ernie4_5", kLlamaAttention, kLlamaFeedForward, kPreNorms),
    llama("phi3", kPhi3Attention, kPhi3FeedForward, kPreNorms),
    llama("glm", kLlamaAttention, kPhi3FeedForward, kPreNorms),
    llama("glm4", kLlamaAttention, kPhi3FeedForward, kGlm4Norms),
    llama("gpt_oss", kLlamaAttention, kGptOssExperts, kPreNorms),
    llama("deepseek_v3", kDeepseekAttention, kLlamaFeedForward, kPreNorms),
    {"gpt_neox", kNeoxPrefixes, "layers.{}.", kNeoxLayer, {}, {}, kNeoxOthers},
    {"t5", kT5Prefixes, "encoder.block.{}.", kT5Layer, {}, {}, kT5Others},
};

/// Splits "layers.3.attention.query.weight" into "3" and "attention.query.weight". Other names have
/// no number.
struct Place {
  std::string_view layer, name;

  explicit Place(std::string_view whole) : name(whole) {
    constexpr std::string_view kLayers = "layers.";
    if (!whole.starts_with(kLayers)) return;
    whole.remove_prefix(kLayers.size());
    const std::size_t dot = whole.find('.');
    layer = whole.substr(0, dot);
    name = whole.substr(dot + 1);
  }
};

}  // namespace

std::vector<TensorName> tensor_names(const Naming& naming, const std::string& name) {
  if (naming.family == "addnorm") return {{name, {}}};
  const std::span<const Layout> layouts = naming.is_gguf ? gguf_layouts() : kLayouts;
  const auto layout = std::ranges::find(layouts, naming.family, &Layout::family);
  require(layout != layouts.end(), "tensor_names: there is no family '{}'", naming.family);
  const Place place(name);
  std::vector<TensorName> names;
  const auto add = [&](Rows rows, const std::string& before) {
    for (const Row& row : rows) {
      if (row.ours != place.name) continue;
      for (const std::string_view prefix : layout->prefixes) {
        names.push_back({fmt::format("{}{}{}", prefix, before, row.theirs),
                         {row.transposed, row.part(naming), row.of_experts ? naming.experts : 0}});
      }
    }
  };
  if (!place.layer.empty()) {
    const std::string before = fmt::format(fmt::runtime(layout->layer), place.layer);
    add(layout->of_layer, before);
    add(layout->feed_forward, before);
    add(layout->norms, before);
  }
  add(layout->others, "");
  return names;
}

}  // namespace addnorm::model
