#!/usr/bin/env python3
"""Writes models/*/: small models in the files of published checkpoints, and their expected outputs.

A folder holds config.json, model.safetensors (or two parts and their index), and expected.safetensors: "tokens", the
"output" for them, a random gradient of it as "d_output", and for each weight of the file "gradient.NAME". Everything is
computed in float64 and stored in float32; weights are float32 numbers from the start. Tensors without a gradient occur
in real files but are not needed by a forward: masks, frequencies, heads for other tasks.

 /usr/bin/python3 tests/golden/generate_models.py
"""

import json
import pathlib
import shutil
import zlib

import torch
from torch import nn

import transformers
from safetensors_writer import save

MODELS = pathlib.Path(__file__).parent / "models"
BATCH, LENGTH = 2, 12

GPT2 = {
    "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
    "bos_token_id": 36, "embd_pdrop": 0.1, "eos_token_id": 36, "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-5, "model_type": "gpt2", "n_ctx": 16, "n_embd": 20, "n_head": 4,
    "n_inner": None, "n_layer": 2, "n_positions": 16, "resid_pdrop": 0.1,
    "summary_activation": None, "summary_first_dropout": 0.1, "summary_proj_to_labels": True,
    "summary_type": "cls_index", "summary_use_proj": True, "vocab_size": 37,
}
BERT = {
    "architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1,
    "gradient_checkpointing": False, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
    "hidden_size": 18, "initializer_range": 0.02, "intermediate_size": 30, "layer_norm_eps": 1e-12,
    "max_position_embeddings": 14, "model_type": "bert", "num_attention_heads": 3,
    "num_hidden_layers": 2, "pad_token_id": 0, "position_embedding_type": "absolute",
    "type_vocab_size": 2, "use_cache": True, "vocab_size": 35,
}
LLAMA = {
    "architectures": ["LlamaForCausalLM"], "bos_token_id": 1, "eos_token_id": 2,
    "hidden_act": "silu", "hidden_size": 24, "initializer_range": 0.02, "intermediate_size": 36,
    "max_position_embeddings": 64, "model_type": "llama", "num_attention_heads": 4,
    "num_hidden_layers": 2, "num_key_value_heads": 2, "pretraining_tp": 1, "rms_norm_eps": 1e-5,
    "rope_scaling": None, "tie_word_embeddings": False, "torch_dtype": "float32", "use_cache": True,
    "vocab_size": 33,
}  # as Llama 2's, without rope_theta
QWEN2 = {
    "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 0,
    "eos_token_id": 0, "hidden_act": "silu", "hidden_size": 24, "initializer_range": 0.02,
    "intermediate_size": 34, "max_position_embeddings": 64, "max_window_layers": 2,
    "model_type": "qwen2", "num_attention_heads": 6, "num_hidden_layers": 2,
    "num_key_value_heads": 2, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "sliding_window": 64,
    "tie_word_embeddings": False, "torch_dtype": "float32", "use_cache": True,
    "use_sliding_window": False, "vocab_size": 34,
}
GEMMA = {
    "architectures": ["GemmaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
    "bos_token_id": 2, "eos_token_id": 1, "head_dim": 10, "hidden_act": "gelu",
    "hidden_activation": None, "hidden_size": 18, "initializer_range": 0.02,
    "intermediate_size": 38, "max_position_embeddings": 64, "model_type": "gemma",
    "num_attention_heads": 2, "num_hidden_layers": 2, "num_key_value_heads": 1, "pad_token_id": 0,
    "rms_norm_eps": 1e-6, "rope_scaling": None, "rope_theta": 10000.0, "torch_dtype": "float32",
    "use_cache": True, "vocab_size": 36,
}
OLMO2 = {
    "architectures": ["Olmo2ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
    "eos_token_id": 3, "hidden_act": "silu", "hidden_size": 24, "initializer_range": 0.02,
    "intermediate_size": 30, "max_position_embeddings": 64, "model_type": "olmo2",
    "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2, "pad_token_id": 1,
    "rms_norm_eps": 1e-6, "rope_scaling": None, "rope_theta": 500000, "tie_word_embeddings": False,
    "torch_dtype": "float32", "use_cache": False, "vocab_size": 38,
}
T5 = {
    "architectures": ["T5EncoderModel"], "d_ff": 40, "d_kv": 6, "d_model": 20,
    "decoder_start_token_id": 0, "dropout_rate": 0.1, "eos_token_id": 1, "initializer_factor": 1.0,
    "is_encoder_decoder": True, "layer_norm_epsilon": 1e-6, "model_type": "t5", "n_positions": 512,
    "num_heads": 3, "num_layers": 2, "output_past": True, "pad_token_id": 0,
    "relative_attention_num_buckets": 32, "vocab_size": 40,
}  # as t5-small's, without feed_forward_proj and relative_attention_max_distance

CONFIGS = {
    "gpt2": GPT2,
    "gpt2_saved": {**GPT2, "n_embd": 16, "n_head": 2, "n_inner": 30},
    "bert": BERT,
    "bert_hub": {**BERT, "hidden_size": 16, "num_attention_heads": 2},
    "llama": LLAMA,
    "llama3": {**LLAMA, "attention_bias": False, "attention_dropout": 0.0, "head_dim": 8,
               "hidden_size": 20, "intermediate_size": 32, "mlp_bias": False,
               "num_attention_heads": 3, "num_key_value_heads": 1,
               "rope_scaling": {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                                "original_max_position_embeddings": 64, "rope_type": "llama3"},
               "rope_theta": 500.0, "tie_word_embeddings": True},
    "qwen2": QWEN2,
    "qwen3": {**QWEN2, "architectures": ["Qwen3ForCausalLM"], "attention_bias": False,
              "head_dim": 10, "hidden_size": 20, "model_type": "qwen3", "num_attention_heads": 4,
              "rope_scaling": None, "sliding_window": None, "tie_word_embeddings": True},
    "gemma": GEMMA,
    "gemma2": {**GEMMA, "architectures": ["Gemma2ForCausalLM"], "attn_logit_softcapping": 1.5,
               "cache_implementation": "hybrid", "final_logit_softcapping": 2.0,
               "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh",
               "model_type": "gemma2", "num_attention_heads": 4, "num_key_value_heads": 2,
               "head_dim": 6, "query_pre_attn_scalar": 4, "sliding_window": 5},
    "gemma3": {**GEMMA, "architectures": ["Gemma3ForCausalLM"], "attn_logit_softcapping": None,
               "cache_implementation": "hybrid", "final_logit_softcapping": None, "head_dim": 8,
               "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 16,
               "intermediate_size": 26, "model_type": "gemma3_text", "num_attention_heads": 4,
               "num_hidden_layers": 3, "num_key_value_heads": 2, "query_pre_attn_scalar": 5,
               "rope_local_base_freq": 100.0, "rope_scaling": {"factor": 2.0,
                                                               "rope_type": "linear"},
               "rope_theta": 1000.0, "sliding_window": 4, "sliding_window_pattern": 2},
    "olmo2": OLMO2,
    "t5": T5,
    "t5_v1_1": {**T5, "d_ff": 28, "feed_forward_proj": "gated-gelu",
                "relative_attention_max_distance": 20, "relative_attention_num_buckets": 12,
                "tie_word_embeddings": False},
}
CONFIGS["gemma3"].pop("hidden_act")

# The standard deviation of embeddings, for models where 0.7 would hide a fault. A small stream reveals ε; a small tied
# head keeps a soft-cap from saturating.
EMBEDDING = {"llama": 0.05, "llama3": 0.05, "qwen2": 0.02, "qwen3": 0.05, "gemma": 0.2,
             "gemma2": 0.3, "gemma3": 0.2, "olmo2": 0.05}


def draw_weights(model, embedding):
    """Makes every mechanism matter: γ is not 1, biases are not 0, attention is not uniform."""
    for module in model.modules():
        weight, bias = (getattr(module, key, None) for key in ("weight", "bias"))
        if isinstance(module, (nn.LayerNorm, transformers.RMSNorm)):
            nn.init.normal_(weight, 0 if getattr(module, "unit_offset", False) else 1, 0.25)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(weight, 0, embedding)
        elif weight is not None:
            inputs = weight.shape[0 if isinstance(module, transformers.Conv1D) else 1]
            nn.init.normal_(weight, 0, 1.1 * inputs**-0.5)
        if bias is not None:
            nn.init.normal_(bias, 0, 0.3)
    for module in model.modules():
        if isinstance(module, transformers.T5Attention):
            module.q.weight.data *= module.q.out_features**-0.5  # other models divide scores instead
            if hasattr(module, "relative_attention_bias"):
                nn.init.normal_(module.relative_attention_bias.weight)


def gpt2_masks(model, dtype):
    mask = torch.ones(model.config.n_positions, model.config.n_positions).tril()[None, None]
    return {f"h.{i}.attn.bias": mask.to(dtype) for i in range(model.config.n_layer)}


def files_of_gpt2(tensors, model):
    """Names tensors like OpenAI's files on the hub: no prefix, masks in float32."""
    return tensors, gpt2_masks(model, torch.float32)


def files_of_gpt2_saved(tensors, model):
    """Names tensors like GPT2LMHeadModel, with the prefix. Masks are as in early releases."""
    masks = gpt2_masks(model, torch.uint8)
    masks |= {f"h.{i}.attn.masked_bias": torch.tensor(-1e4) for i in range(model.config.n_layer)}
    return tuple({f"transformer.{key}": t for key, t in group.items()}
                 for group in (tensors, masks))


def files_of_bert(tensors, model):
    """Names tensors like BertForMaskedLM. The head's weight is the embedding and is stored once."""
    return tensors, {}


def files_of_bert_hub(tensors, model):
    """Names tensors like Google's files on the hub: "gamma" and "beta", a pooler and a second head."""
    def old(key):
        return key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias",
                                                                          "LayerNorm.beta")

    d = model.config.hidden_size
    return {old(key): t for key, t in tensors.items()}, {
        "bert.embeddings.position_ids": torch.arange(model.config.max_position_embeddings)[None],
        "bert.pooler.dense.weight": torch.randn(d, d), "bert.pooler.dense.bias": torch.randn(d),
        "cls.seq_relationship.weight": torch.randn(2, d),
        "cls.seq_relationship.bias": torch.randn(2),
        "cls.predictions.decoder.weight": tensors["bert.embeddings.word_embeddings.weight"],
    }


def files_of_llama(tensors, model):
    """Names tensors like Llama 2 on the hub, with the frequencies of rotary embeddings."""
    return tensors, {f"model.layers.{i}.self_attn.rotary_emb.inv_freq": layer.self_attn.frequency
                     for i, layer in enumerate(model.model.layers)}


def files_of_t5(tensors, model):
    """Names tensors like early releases, with the embedding under a second name."""
    return tensors, {"encoder.embed_tokens.weight": tensors["shared.weight"]}


def as_arrays(tensors):
    """Converts float64 results to float32 for the files."""
    return {key: (t.float() if t.is_floating_point() else t).detach().numpy()
            for key, t in tensors.items()}


def save_weights(folder, arrays, shards):
    metadata = {"format": "pt"}
    if shards == 1:
        save(folder / "model.safetensors", arrays, metadata)
        return
    names, index = list(arrays), {}
    for i in range(shards):
        file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        part = names[i * len(names) // shards:(i + 1) * len(names) // shards]
        save(folder / file, {key: arrays[key] for key in part}, metadata)
        index |= dict.fromkeys(part, file)
    write_json(folder / "model.safetensors.index.json", {
        "metadata": {"total_size": sum(a.nbytes for a in arrays.values())},
        "weight_map": dict(sorted(index.items())),
    })


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2) + "\n")


def save_model(name, config):
    torch.manual_seed(zlib.crc32(name.encode()))
    model = transformers.build(config)
    draw_weights(model, EMBEDDING.get(name, 0.7))
    model.double()  # the weights were drawn in float32
    tokens = torch.randint(config["vocab_size"], (BATCH, LENGTH))
    output = model(tokens)
    d_output = torch.randn(output.shape).double()
    output.backward(d_output)

    files = globals().get(f"files_of_{name}", lambda tensors, model: (tensors, {}))
    weights, extras = files(dict(model.named_parameters()), model)
    gradients = {f"gradient.{key}": p.grad for key, p in weights.items()}
    folder = MODELS / name
    folder.mkdir(parents=True)
    write_json(folder / "config.json", dict(sorted(config.items())))
    save_weights(folder, as_arrays({**weights, **extras}), 2 if name == "llama3" else 1)
    save(folder / "expected.safetensors",
         as_arrays({"tokens": tokens, "output": output, "d_output": d_output, **gradients}))


def main():
    assert torch.__version__.startswith("1.13"), torch.__version__
    torch.set_num_threads(1)  # a fixed order of summation
    shutil.rmtree(MODELS, ignore_errors=True)
    for name, config in CONFIGS.items():
        save_model(name, config)


if __name__ == "__main__":
    main()
