#include "model/tensor_layout.h"

namespace addnorm::model {
namespace {

// The names are those of llama.cpp's gguf-py, constants.py. Each family has a part of the rows
// below.

constexpr std::string_view kGgufPrefixes[] = {""};
constexpr Row kGgufOthers[] = {
    {"embedding.token", "token_embd.weight"},
    {"embedding.position", "position_embd.weight"},
    {"embedding.token_type", "token_types.weight"},
    {"embedding.norm.gamma", "token_embd_norm.weight"},
    {"embedding.norm.beta", "token_embd_norm.bias"},
    {"final_norm.gamma", "output_norm.weight"},
    {"final_norm.beta", "output_norm.bias"},
    {"head.weight", "output.weight"},
};

/// Each projection is a separate tensor.
constexpr Row kGgufSplitLayer[] = {
    {"attention.query.weight", "attn_q.weight"},
    {"attention.query.bias", "attn_q.bias"},
    {"attention.key.weight", "attn_k.weight"},
    {"attention.key.bias", "attn_k.bias"},
    {"attention.value.weight", "attn_v.weight"},
    {"attention.value.bias", "attn_v.bias"},
    {"attention.output.weight", "attn_output.weight"},
    {"attention.output.bias", "attn_output.bias"},
    {"attention.query_norm.gamma", "attn_q_norm.weight"},
    {"attention.key_norm.gamma", "attn_k_norm.weight"},
    {"feed_forward.gate.weight", "ffn_gate.weight"},
    {"feed_forward.up.weight", "ffn_up.weight"},
    {"feed_forward.up.bias", "ffn_up.bias"},
    {"feed_forward.down.weight", "ffn_down.weight"},
    {"feed_forward.down.bias", "ffn_down.bias"},
};
/// Query, key and value of all heads are thirds of one tensor. GPT-NeoX's are no longer interleaved
/// by head, and GPT-2's no longer transposed.
constexpr Row kGgufThirdsLayer[] = {
    {"attention.query.weight", "attn_qkv.weight", false, equal<0, 3>},
    {"attention.query.bias", "attn_qkv.bias", false, equal<0, 3>},
    {"attention.key.weight", "attn_qkv.weight", false, equal<1, 3>},
    {"attention.key.bias", "attn_qkv.bias", false, equal<1, 3>},
    {"attention.value.weight", "attn_qkv.weight", false, equal<2, 3>},
    {"attention.value.bias", "attn_qkv.bias", false, equal<2, 3>},
    {"attention.output.weight", "attn_output.weight"},
    {"attention.output.bias", "attn_output.bias"},
    {"feed_forward.up.weight", "ffn_up.weight"},
    {"feed_forward.up.bias", "ffn_up.bias"},
    {"feed_forward.down.weight", "ffn_down.weight"},
    {"feed_forward.down.bias", "ffn_down.bias"},
};
/// ffn_up contains the gate, before the up projection.
constexpr Row kGgufPhi3Layer[] = {
    {"attention.query.weight", "attn_qkv.weight", false, queries},
    {"attention.key.weight", "attn_qkv.weight", false, keys},
    {"attention.value.weight", "attn_qkv.weight", false, values},
    {"attention.output.weight", "attn_output.weight"},
    {"feed_forward.gate.weight", "ffn_up.weight", false, equal<0, 2>},
    {"feed_forward.up.weight", "ffn_up.weight", false, equal<1, 2>},
    {"feed_forward.down.weight", "ffn_down.weight"},
};
constexpr Row kGgufGlmLayer[] = {
    {"attention.query.weight", "attn_q.weight"},
    {"attention.query.bias", "attn_q.bias"},
    {"attention.key.weight", "attn_k.weight"},
    {"attention.key.bias", "attn_k.bias"},
    {"attention.value.weight", "attn_v.weight"},
    {"attention.value.bias", "attn_v.bias"},
    {"attention.output.weight", "attn_output.weight"},
    {"feed_forward.gate.weight", "ffn_up.weight", false, equal<0, 2>},
    {"feed_forward.up.weight", "ffn_up.weight", false, equal<1, 2>},
    {"feed_forward.down.weight", "ffn_down.weight"},
};

constexpr Row kGgufPreNorms[] = {
    {"attention_add_norm.before.gamma", "attn_norm.weight"},
    {"attention_add_norm.before.beta", "attn_norm.bias"},
    {"feed_forward_add_norm.before.gamma", "ffn_norm.weight"},
    {"feed_forward_add_norm.before.beta", "ffn_norm.bias"},
};
constexpr Row kGgufSeedNorms[] = {
    {"attention_add_norm.before.gamma", "attn_norm.weight"},
    {"feed_forward_add_norm.before.gamma", "post_attention_norm.weight"},
};
constexpr Row kGgufBranchNorms[] = {
    {"attention_add_norm.before.gamma", "attn_norm.weight"},
    {"attention_add_norm.inside.gamma", "post_attention_norm.weight"},
    {"feed_forward_add_norm.before.gamma", "ffn_norm.weight"},
    {"feed_forward_add_norm.inside.gamma", "post_ffw_norm.weight"},
};
constexpr Row kGgufPostNorms[] = {
    {"attention_add_norm.after.gamma", "attn_output_norm.weight"},
    {"attention_add_norm.after.beta", "attn_output_norm.bias"},
    {"feed_forward_add_norm.after.gamma", "layer_output_norm.weight"},
    {"feed_forward_add_norm.after.beta", "layer_output_norm.bias"},
};

constexpr Layout layout(std::string_view family, Rows of_layer, Rows norms) {
  return {family, kGgufPrefixes, "blk.{}.", of_layer, {}, norms, kGgufOthers};
}
constexpr Layout kGgufLayouts[] = {
    layout("gpt2", kGgufThirdsLayer, kGgufPreNorms),
    layout("bert", kGgufSplitLayer, kGgufPostNorms),
    layout("llama", kGgufSplitLayer, kGgufPreNorms),
    layout("qwen2", kGgufSplitLayer, kGgufPreNorms),
    layout("qwen3", kGgufSplitLayer, kGgufPreNorms),
    layout("gemma", kGgufSplitLayer, kGgufPreNorms),
    layout("gemma2", kGgufSplitLayer, kGgufBranchNorms),
    layout("gemma3_text", kGgufSplitLayer, kGgufBranchNorms),
    layout("olmo2", kGgufSplitLayer, kGgufBranchNorms),
    layout("olmo3", kGgufSplitLayer, kGgufBranchNorms),
    layout("phi3", kGgufPhi3Layer, kGgufPreNorms),
    layout("glm4", kGgufGlmLayer, kGgufBranchNorms),
    layout("gpt_neox", kGgufThirdsLayer, kGgufPreNorms),
    layout("smollm3", kGgufSplitLayer, kGgufPreNorms),
    layout("seed_oss", kGgufSplitLayer, kGgufSeedNorms),
    layout("ernie4_5", kGgufSplitLayer, kGgufPreNorms),
};

}  // namespace

std::span<const Layout> gguf_layouts() {
  return kGgufLayouts;
}

}  // namespace addnorm::model
