#!/usr/bin/env python3
"""Writes hub_models/*/: small models that the library `transformers` makes and saves.

The files are like those of models/ (generate_models.py), but the expected values come from the library itself: the
output for "tokens", and the gradients of all weights for the gradient "d_output", computed in float64 with eager
attention. Needs transformers 5 and PyTorch 2:

 python3 tests/golden/generate_hub_models.py [NAME...]
"""

import pathlib
import shutil
import sys
import zlib

sys.path.append(sys.path.pop(0))  # this folder has another transformers.py

import torch
import transformers
from safetensors.torch import load_file
from torch import nn
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from safetensors_writer import save

MODELS = pathlib.Path(__file__).parent / "hub_models"
BATCH, LENGTH = 2, 12

SIZES = {"vocab_size": 19, "hidden_size": 16, "intermediate_size": 22, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
         "pad_token_id": None, "bos_token_id": 1, "eos_token_id": 2}
NEOX = {key: value for key, value in {"model_type": "gpt_neox", **SIZES}.items()
        if key != "num_key_value_heads"}
YARN = {"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0,
        "original_max_position_embeddings": 16}
# A sliding window, positions by YaRN, and biases so large that some values of experts are clamped.
GPT_OSS = {"model_type": "gpt_oss", **SIZES, "head_dim": 8, "sliding_window": 5,
           "num_local_experts": 4, "num_experts_per_tok": 2,
           "rope_parameters": {**YARN, "truncate": False}}

DEEPSEEK = {"model_type": "deepseek_v3", **SIZES, "num_key_value_heads": 4, "kv_lora_rank": 10,
            "q_lora_rank": 14, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 5,
            "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1,
            "moe_intermediate_size": 8, "num_nextn_predict_layers": 0,
            "rope_parameters": {**YARN, "mscale": 0.7, "mscale_all_dim": 0.9}}

CONFIGS = {
    "mistral": {"model_type": "mistral", **SIZES, "sliding_window": 5, "head_dim": 6},
    "mistral_yarn": {"model_type": "mistral", **SIZES, "sliding_window": None, "head_dim": 8,
                     "rope_parameters": YARN},
    "phi3": {"model_type": "phi3", **SIZES, "sliding_window": 7, "num_key_value_heads": 1,
             "rope_parameters": {"rope_type": "default", "rope_theta": 500.0}},
    "phi3_longrope": {"model_type": "phi3", **SIZES, "num_attention_heads": 2,
                      "num_key_value_heads": 1, "tie_word_embeddings": True,
                      "original_max_position_embeddings": 16,
                      "rope_parameters": {"rope_type": "longrope", "rope_theta": 500.0,
                                          "partial_rotary_factor": 0.75,
                                          "original_max_position_embeddings": 16,
                                          "short_factor": [1.0, 1.25, 1.5],
                                          "long_factor": [2.0, 3.0, 4.0]}},
    "gpt_neox": {**NEOX, "num_attention_heads": 2, "layer_norm_eps": 1e-5,
                 "rope_parameters": {"rope_type": "default", "rope_theta": 300.0,
                                     "partial_rotary_factor": 0.25}},
    "gpt_neox_in_turn": {**NEOX, "use_parallel_residual": False,
                         "rope_parameters": {"rope_type": "linear", "factor": 2.0,
                                             "rope_theta": 300.0, "partial_rotary_factor": 1.0}},
    "olmo3": {"model_type": "olmo3", **SIZES, "num_hidden_layers": 3, "sliding_window": 4,
              "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
              "rope_parameters": {"full_attention": YARN,
                                  "sliding_attention": {"rope_type": "default",
                                                        "rope_theta": 1000.0}}},
    "glm": {"model_type": "glm", **SIZES, "head_dim": 8, "num_key_value_heads": 1},
    "glm4": {"model_type": "glm4", **SIZES, "head_dim": 12, "attention_bias": True,
             "rope_parameters": {"rope_type": "default", "rope_theta": 200.0,
                                 "partial_rotary_factor": 0.5}},
    "smollm3": {"model_type": "smollm3", **SIZES, "no_rope_layer_interval": 2,
                "rope_parameters": {"rope_type": "default", "rope_theta": 300.0}},
    "seed_oss": {"model_type": "seed_oss", **SIZES, "head_dim": 6},
    "ernie4_5": {"model_type": "ernie4_5", **SIZES, "head_dim": 8,
                 "rope_parameters": {"rope_type": "default", "rope_theta": 400.0}},
    "gpt_oss": {**GPT_OSS, "intermediate_size": 10},
    "gpt_oss_mxfp4": {**GPT_OSS, "hidden_size": 32, "intermediate_size": 32,
                      "num_hidden_layers": 1, "num_local_experts": 3},
    # The expected output for the first is the stream after two layers, because the third has experts.
    "deepseek_v3": {**DEEPSEEK, "num_hidden_layers": 3, "first_k_dense_replace": 2},
    "deepseek_v3_dense": {**DEEPSEEK, "q_lora_rank": None, "rope_interleave": False,
                          "first_k_dense_replace": 2},
    # Not run here: two layers of linear attention and one of attention, all with experts.
    "qwen3_next": {"model_type": "qwen3_next", **SIZES, "num_hidden_layers": 3, "head_dim": 8,
                   "layer_types": ["linear_attention", "linear_attention", "full_attention"],
                   "linear_key_head_dim": 4, "linear_value_head_dim": 4,
                   "linear_num_key_heads": 2, "linear_num_value_heads": 2,
                   "moe_intermediate_size": 6, "shared_expert_intermediate_size": 6,
                   "num_experts": 4, "num_experts_per_tok": 2},
    "qwen2_window": {"model_type": "qwen2", **SIZES, "num_hidden_layers": 3,
                     "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1,
                     "rope_parameters": {"rope_type": "dynamic", "rope_theta": 1000.0,
                                         "factor": 2.0}},
}


def draw_weights(model):
    """Makes every mechanism matter: γ is not 1, biases are not 0, attention is not uniform."""
    for name, module in model.named_modules():
        weight, bias = (getattr(module, key, None) for key in ("weight", "bias"))
        if "norm" in name and weight is not None:
            nn.init.normal_(weight, 0 if type(module).__name__ == "Qwen3NextRMSNorm" else 1, 0.25)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(weight, 0, 0.3)
        elif weight is not None and weight.dim() > 1:
            nn.init.normal_(weight, 0, 1.1 * weight.shape[1]**-0.5)
        if bias is not None:
            nn.init.normal_(bias, 0, 0.3)
    for name, parameter in model.named_parameters():
        if name.endswith("sinks"):
            nn.init.normal_(parameter, 0, 1)
        elif name.endswith("_proj"):  # experts' weights, in × out
            nn.init.normal_(parameter, 0, 1.1 * parameter.shape[1]**-0.5)
        elif name.endswith("_proj_bias"):
            nn.init.normal_(parameter, 0, 4)


def save_model(name, keys):
    torch.manual_seed(zlib.crc32(name.encode()))
    config = transformers.AutoConfig.for_model(**keys)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    draw_weights(model)
    folder = MODELS / name
    packed = pack_experts(model) if name.endswith("mxfp4") else {}
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink()
    if packed:
        file = folder / "model.safetensors"
        saved = {key: t for key, t in load_file(file).items() if f"{key}_blocks" not in packed}
        save(file, {key: t.numpy() for key, t in {**saved, **packed}.items()}, {"format": "pt"})

    if config.model_type == "qwen3_next":
        return
    model.double().eval()
    tokens = torch.randint(config.vocab_size, (BATCH, LENGTH))
    output = model(tokens).logits
    layers = getattr(config, "first_k_dense_replace", config.num_hidden_layers)
    if layers < config.num_hidden_layers:
        output = model(tokens, output_hidden_states=True).hidden_states[layers]
    d_output = torch.randn(output.shape).double()
    output.backward(d_output)
    gradients = {f"gradient.{name_in_file(key, config)}": p.grad
                 for key, p in model.named_parameters() if p.grad is not None}
    for key in (key for key in packed if key.endswith("_blocks")):  # out × in
        gradients[f"gradient.{key}"] = gradients.pop(
            f"gradient.{key.removesuffix('_blocks')}").transpose(1, 2).contiguous()
    tensors = {"tokens": tokens, "output": output, "d_output": d_output, **gradients}
    save(folder / "expected.safetensors",
         {key: (t.float() if t.is_floating_point() else t).detach().numpy()
          for key, t in tensors.items()})


def pack_experts(model):
    """Gives experts weights in MXFP4, and returns the tensors that the files store for them."""
    packed = {}
    for name, parameter in model.named_parameters():
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            continue
        experts, width, height = parameter.shape
        blocks = torch.randint(256, (experts, height, width // 32, 16), dtype=torch.uint8)
        scales = torch.randint(122, 126, blocks.shape[:-1], dtype=torch.uint8)
        parameter.data = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
        packed |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
    return packed


def name_in_file(key, config):
    is_renamed = config.model_type == "gpt_neox" and key == "lm_head.weight"
    return "embed_out.weight" if is_renamed else key


def main():
    torch.set_num_threads(1)  # a fixed order of summation
    for name in sys.argv[1:] or CONFIGS:
        shutil.rmtree(MODELS / name, ignore_errors=True)
        save_model(name, CONFIGS[name])


if __name__ == "__main__":
    main()
