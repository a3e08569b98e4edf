#!/usr/bin/env python3
"""Writes profiles/*.jsonl: the probe's profiles of sound models and of models with a bug.

The bugs are planted in the code of transformers.py's models and have occurred in practice: no error, a falling loss,
wrong numbers. Models are small. They have random weights drawn by their recipes, or are trained for 200 steps. The loss
is that of the next token, or of masked ones. For each file, profiles/index.json has its "architecture", its "bug" or
"sound", and the place of the bug: "layer" and "sublayer", null for all.

Also writes trained/*/: a GPT-2, a Llama and a Gemma with two layers in the files of published checkpoints. They have
learned to continue sequences that repeat four tokens.

 /usr/bin/python3 tests/golden/planted.py
"""

import copy
import functools
import json
import math
import pathlib
import shutil
import sys
import zlib

import torch
import torch.nn.functional as F
from torch import nn

import generate_models
import transformers
from transformers import RMSNorm

from addnorm.probe import probe

PROFILES = pathlib.Path(__file__).parent / "profiles"
TRAINED = pathlib.Path(__file__).parent / "trained"
LAYERS, D_MODEL, HEADS, VOCABULARY, BATCH, LENGTH = 4, 48, 4, 40, 4, 16
SIZES = {
    "n_embd": D_MODEL, "n_layer": LAYERS, "n_head": HEADS, "n_inner": None,
    "hidden_size": D_MODEL, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
    "num_key_value_heads": 2, "intermediate_size": 2 * D_MODEL, "head_dim": D_MODEL // HEADS,
    "d_model": D_MODEL, "num_layers": LAYERS, "num_heads": HEADS, "d_ff": 2 * D_MODEL,
    "d_kv": D_MODEL // HEADS, "vocab_size": VOCABULARY, "query_pre_attn_scalar": D_MODEL // HEADS,
    "max_position_embeddings": 64, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
}
PROJECTIONS_INTO_THE_STREAM = ("c_proj", "o_proj", "down_proj", "wo", ".o")


def config_of(architecture, **sizes):
    """Returns the configuration of a golden model's architecture with other sizes."""
    sizes = SIZES | sizes
    return {key: sizes[key] if key in sizes and value is not None else value
            for key, value in generate_models.CONFIGS[architecture].items()}


def build(architecture):
    return transformers.build(config_of(architecture))


def initialize(model):
    """Initializes weights by the recipes: N(0, 0.02²), GPT-2's projections into the stream ÷ √(2N), T5's own."""
    for name, module in model.named_modules():
        weight, bias = (getattr(module, key, None) for key in ("weight", "bias"))
        if isinstance(weight, nn.Parameter) and weight.dim() == 2:
            nn.init.normal_(weight, 0, 0.02)
            if model.config.model_type == "gpt2" and name.endswith(PROJECTIONS_INTO_THE_STREAM):
                weight.data /= math.sqrt(2 * LAYERS)
            if model.config.model_type == "t5":
                of_t5 = 1.0 if isinstance(module, nn.Embedding) else module.in_features**-0.5
                weight.data *= of_t5 / 0.02 * (module.out_features**-0.5 * HEADS**0.5
                                               if name.endswith(".q") else 1)
        if isinstance(bias, nn.Parameter) and not isinstance(module, nn.LayerNorm):
            nn.init.zeros_(bias)


def batch_and_loss(model):
    """Returns sequences that repeat four tokens, so that there is something to learn, and the model's loss."""
    x = torch.randint(1, VOCABULARY, (BATCH, 4)).repeat(1, LENGTH // 4)
    kind = model.config.model_type
    if kind not in ("bert", "t5"):
        return x, lambda y: F.cross_entropy(y[:, :-1].flatten(0, 1).float(), x[:, 1:].flatten())
    hidden = torch.rand(x.shape) < 0.3
    hidden[0, 0] = True

    def loss(y):
        logits = y if kind == "bert" else F.linear(y, model.shared.weight) / math.sqrt(D_MODEL)
        return F.cross_entropy(logits[hidden].float(), x[hidden])

    return x.masked_fill(hidden, 0), loss


def train(model, steps, rate=3e-3, see=lambda step, tokens, loss: None):
    optimizer = torch.optim.AdamW(model.parameters(), rate)
    for step in range(steps):
        tokens, loss = batch_and_loss(model)
        see(step, tokens, loss)
        optimizer.zero_grad()
        loss(model(tokens)).backward()
        optimizer.step()


def blocks_of(model):
    return {"gpt2": lambda: model.h, "bert": lambda: model.bert.encoder.layer,
            "t5": lambda: model.encoder.block}.get(model.config.model_type,
                                                   lambda: model.model.layers)()


def norms_of(model, layer=None):
    """Returns (owner, attribute, norm) for one layer or the whole model, without norms of queries and keys."""
    root = model if layer is None else blocks_of(model)[layer]
    return [(owner, key, norm) for owner in root.modules()
            for key, norm in owner.named_children()
            if isinstance(norm, (nn.LayerNorm, RMSNorm)) and key not in ("q_norm", "k_norm")]


def replace_norms(model, layer, new):
    for owner, key, norm in norms_of(model, layer):
        setattr(owner, key, new(norm))


# ---- Norms that differ from their declaration ------------------------------------------------


def in_half_precision(values):
    """The mean over features, with each partial sum rounded to float16."""
    total = torch.zeros_like(values[..., :1]).half()
    for column in values.unbind(-1):
        total = (total.float() + column[..., None].half().float()).half()
    return total.float() / values.shape[-1]


class LayerNorm(nn.Module):
    """A LayerNorm or RMSNorm with one fault that occurs in practice."""

    def __init__(self, norm, centres=None, eps=None, eps_is_outside=False, mean=None):
        super().__init__()
        self.weight, self.bias = norm.weight, getattr(norm, "bias", None)
        self.eps, self.true_eps = norm.eps, norm.eps if eps is None else eps
        self.centres = isinstance(norm, nn.LayerNorm) if centres is None else centres
        self.eps_is_outside = eps_is_outside
        self.offset = int(getattr(norm, "unit_offset", False))
        self.mean = mean or (lambda values: values.mean(-1, keepdim=True))

    def forward(self, x):
        s = x - self.mean(x) if self.centres else x
        square = self.mean(s * s)
        deviation = square.sqrt() + self.true_eps if self.eps_is_outside else \
            (square + self.true_eps).sqrt()
        y = (self.offset + self.weight) * (s / deviation)
        return y if self.bias is None else y + self.bias


class WrongRMSNorm(LayerNorm):
    """The same, with the class name of such a model's norms."""


WrongRMSNorm.__name__ = "RMSNorm"


def wrong_norm(**what):
    return lambda norm: (WrongRMSNorm if isinstance(norm, RMSNorm) else LayerNorm)(norm, **what)


class DepthScaledRMSNorm(RMSNorm):
    """LayerNorm Scaling (Sun et al. 2025): multiplies by 1/√l, with l from 1, stored in a buffer."""

    def __init__(self, norm, layer):
        super().__init__(norm.weight.numel(), norm.eps)
        self.weight = norm.weight
        self.register_buffer("scale", torch.tensor(1 / math.sqrt(layer + 1)))

    def forward(self, x):
        return super().forward(x) * self.scale


def scale_by_depth(model):
    for layer in range(LAYERS):
        replace_norms(model, layer, lambda norm: DepthScaledRMSNorm(norm, layer))


# ---- Bugs ------------------------------------------------------------------------------------


def break_residual(new):
    """Replaces the residual sum of one sublayer, in one layer or in all."""
    def plant(model, layer, sublayer):
        for i, block in enumerate(blocks_of(model)):
            if layer is not None and i != layer:
                continue
            owners = [m for m in block.modules() if isinstance(m, transformers.Residual)]
            if len(owners) == 2:  # each sublayer has its own sum
                owners[sublayer == "feed_forward"].residual = new
                continue
            calls, plain = [], owners[0].residual

            def residual(x, h, f, calls=calls, plain=plain):
                calls.append(None)
                is_attention = len(calls) % 2 == 1
                return (new if is_attention == (sublayer == "attention") else plain)(x, h, f)

            owners[0].residual = residual
    return plant


def break_norms(**what):
    return lambda model, layer, sublayer: replace_norms(model, layer, wrong_norm(**what))


def lose_depth_scale(model, layer, sublayer):
    for name, buffer in model.named_buffers():
        if name.endswith("scale") and (layer is None or f".{layer}." in name):
            buffer.fill_(1)


def read_gamma_the_other_way(model, layer, sublayer):
    for _, _, norm in norms_of(model, layer):
        norm.unit_offset = not norm.unit_offset


def lose_final_norm(model, layer, sublayer):
    owner = {"gpt2": lambda: model, "t5": lambda: model.encoder}.get(
        model.config.model_type, lambda: model.model)()
    for key in "ln_f", "norm", "final_layer_norm":
        if hasattr(owner, key):
            setattr(owner, key, nn.Identity())


def forget_to_scale_projections(model, layer, sublayer):
    for name, parameter in model.named_parameters():
        if name.endswith("c_proj.weight"):
            parameter.data *= math.sqrt(2 * LAYERS)


BUGS = {
    "norm_over_stream": break_residual(lambda x, h, f: h + f),
    "residual_missing": break_residual(lambda x, h, f: f),
    "residual_twice": break_residual(lambda x, h, f: x + x + f),
    "residual_detached": break_residual(lambda x, h, f: x.detach() + f),
    "branch_detached": break_residual(lambda x, h, f: x + f.detach()),
    "depth_scale_lost": lose_depth_scale,
    "layer_norm_for_rms_norm": break_norms(centres=True),
    "rms_norm_for_layer_norm": break_norms(centres=False),
    "gamma_plain_for_one_plus": read_gamma_the_other_way,
    "gamma_one_plus_for_plain": read_gamma_the_other_way,
    "eps_outside": break_norms(eps_is_outside=True),
    "eps_1e-12": break_norms(eps=1e-12),
    "eps_1e-6": break_norms(eps=1e-6),
    "eps_1e-5": break_norms(eps=1e-5),
    "half_precision": break_norms(mean=in_half_precision),
    "final_norm_missing": lose_final_norm,
    "projections_not_scaled": forget_to_scale_projections,
}
A, FF = "attention", "feed_forward"
PLANTED = [  # bug, architecture, layer (None: all), sublayer, steps of training
    ("norm_over_stream", "gpt2", 2, A, 0),
    ("norm_over_stream", "gpt2", 1, FF, 200),
    ("norm_over_stream", "llama", None, A, 0),
    ("norm_over_stream", "llama", 1, FF, 200),
    ("norm_over_stream", "gemma2", 2, A, 0),
    ("residual_missing", "gpt2", 1, A, 0),
    ("residual_missing", "llama", 2, FF, 200),
    ("residual_missing", "bert", 1, A, 0),
    ("residual_missing", "bert", 2, FF, 200),
    ("residual_missing", "olmo2", 1, FF, 0),
    ("residual_missing", "gemma2", 3, A, 0),
    ("residual_twice", "gpt2", 2, FF, 0),
    ("residual_twice", "llama", 0, A, 200),
    ("residual_twice", "bert", 2, FF, 0),
    ("residual_twice", "olmo2", None, A, 0),
    ("residual_detached", "gpt2", 2, A, 0),
    ("residual_detached", "gpt2", 1, FF, 200),
    ("residual_detached", "llama", 1, FF, 200),
    ("residual_detached", "bert", 2, A, 0),
    ("residual_detached", "bert", 1, FF, 200),
    ("residual_detached", "olmo2", 1, A, 0),
    ("residual_detached", "gemma2", None, A, 0),
    ("branch_detached", "gpt2", 1, FF, 200),
    ("branch_detached", "llama", 2, A, 0),
    ("branch_detached", "bert", None, A, 0),
    ("branch_detached", "olmo2", 1, A, 0),
    ("branch_detached", "gemma2", 3, FF, 200),
    ("depth_scale_lost", "depth_scaled", None, None, 0),
    ("depth_scale_lost", "depth_scaled", None, None, 200),
    ("layer_norm_for_rms_norm", "llama", None, None, 0),
    ("layer_norm_for_rms_norm", "olmo2", None, None, 200),
    ("layer_norm_for_rms_norm", "gemma2", 1, None, 0),
    ("rms_norm_for_layer_norm", "gpt2", None, None, 0),
    ("rms_norm_for_layer_norm", "bert", None, None, 200),
    ("gamma_plain_for_one_plus", "gemma2", None, None, 200),
    ("gamma_plain_for_one_plus", "gemma", None, None, 200),
    ("gamma_one_plus_for_plain", "llama", None, None, 200),
    ("gamma_one_plus_for_plain", "llama", None, None, 0),
    ("eps_outside", "gpt2", None, None, 0),
    ("eps_outside", "llama", None, None, 0),
    ("eps_1e-12", "gpt2", None, None, 0),
    ("eps_1e-6", "llama", None, None, 0),
    ("eps_1e-5", "gemma2", None, None, 200),
    ("eps_1e-5", "bert", None, None, 200),
    ("half_precision", "gpt2", None, None, 0),
    ("half_precision", "llama", 2, None, 200),
    ("final_norm_missing", "gpt2", None, None, 0),
    ("final_norm_missing", "llama", None, None, 200),
    ("final_norm_missing", "olmo2", None, None, 0),
    ("projections_not_scaled", "gpt2", None, None, 0),
]
SOUND = [  # architecture, steps of training, seed
    *((name, 0, 0) for name in ("gpt2", "bert", "llama", "qwen2", "qwen3", "gemma", "gemma2",
                                "gemma3", "olmo2", "t5", "t5_v1_1", "depth_scaled")),
    *((name, 200, 1) for name in ("gpt2", "bert", "llama", "qwen3", "gemma", "gemma2", "gemma3",
                                  "olmo2", "t5", "depth_scaled")),
    ("gpt2", 0, 2), ("llama", 0, 2), ("gpt2", 200, 3), ("llama", 200, 3),
]


# ---- Profiles --------------------------------------------------------------------------------


@functools.lru_cache(maxsize=None)
def trained(architecture, steps, seed):
    torch.manual_seed(zlib.crc32(f"{architecture} {steps} {seed}".encode()))
    model = build("llama" if architecture == "depth_scaled" else architecture)
    initialize(model)
    if architecture == "depth_scaled":
        scale_by_depth(model)
    train(model, steps)
    return model


def make(architecture, steps, seed):
    return copy.deepcopy(trained(architecture, steps, seed))


def recipe_of(architecture, steps):
    """The facts that a user who trains such a model would declare."""
    if architecture == "depth_scaled":
        return {"placement": "depth-scaled"}
    return {"initialization": "gpt2"} if architecture == "gpt2" and steps == 0 else {}


index = {}


def write(name, probed, architecture, bug="sound", layer=None, sublayer=None):
    probed.write(PROFILES / f"{name}.jsonl", digits=6)
    index[f"{name}.jsonl"] = {"architecture": architecture, "bug": bug, "layer": layer,
                              "sublayer": sublayer}


def profile_of(model, **recipe):
    torch.manual_seed(0)
    tokens, loss = batch_and_loss(model)
    return probe(model, recipe=recipe).run(tokens, loss=loss)


def save_sound(architecture, steps, seed):
    model = make(architecture, steps, seed)
    write(f"{architecture}_sound_{steps}_{seed}",
          profile_of(model, **recipe_of(architecture, steps)), architecture)


def save_planted(bug, architecture, layer, sublayer, steps):
    model = make(architecture, steps, 0)
    BUGS[bug](model, layer, sublayer)
    name = "_".join(filter(None, (architecture, bug, None if layer is None else str(layer),
                                  sublayer, "trained" if steps else None)))
    write(name, profile_of(model, **recipe_of(architecture, steps)), architecture, bug, layer,
          sublayer)


def save_large_mean():
    """A sound model with rows whose mean is a hundred times their deviation."""
    model = make("gpt2", 0, 4)
    model.wpe.weight.data += 3
    write("gpt2_sound_large_mean", profile_of(model), "gpt2")


def save_bfloat16():
    for architecture in "gpt2", "llama", "gemma2":
        model = make(architecture, 200, 5).bfloat16()
        write(f"{architecture}_sound_bfloat16", profile_of(model), architecture)


def save_torch_encoder():
    """PyTorch's own encoder, with dropout, without embeddings and without a config."""
    for norm_first in False, True:
        torch.manual_seed(norm_first)
        layer = nn.TransformerEncoderLayer(D_MODEL, HEADS, 2 * D_MODEL, batch_first=True,
                                           norm_first=norm_first)
        model = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(D_MODEL) if norm_first else None,
                                      enable_nested_tensor=False)
        x = torch.randn(BATCH, LENGTH, D_MODEL)
        name = "torch_pre" if norm_first else "torch_post"
        seen = probe(model).run(x, loss=lambda y: (y - x.roll(1, 1)).square().mean())
        write(f"{name}_sound", seen, name)


def save_steps():
    """A run that is profiled every 50 steps, and the same with logits that triple in between."""
    for grows in False, True:
        torch.manual_seed(0)
        model = build("llama")
        blocks = blocks_of(model)
        del blocks[2:]
        initialize(model)
        seen = probe(model, every=50)

        def see(step, tokens, loss):
            seen.step = step
            if grows and step % 50 == 0 and step > 0:
                for block in blocks:
                    for projection in block.self_attn.q_proj, block.self_attn.k_proj:
                        projection.weight.data *= 3**0.5
            seen.run(tokens, loss=loss)

        train(model, 201, see=see)
        write("llama_logits_grow" if grows else "llama_sound_steps", seen, "llama",
              *(("logits_grow", None, A) if grows else ()))


def save_trained_files(architecture):
    config = config_of(architecture, n_layer=2, num_hidden_layers=2)
    torch.manual_seed(zlib.crc32(architecture.encode()))
    model = transformers.build(config)
    initialize(model)
    train(model, 800)
    tokens, loss = batch_and_loss(model)
    print(f"{architecture}: a loss of {loss(model(tokens)):.3f}, of {math.log(VOCABULARY):.3f}")
    folder = TRAINED / architecture
    folder.mkdir(parents=True)
    generate_models.write_json(folder / "config.json", dict(sorted(config.items())))
    arrays = {key: p.detach().half().numpy() for key, p in model.named_parameters()}
    generate_models.save_weights(folder, arrays, 1)


def main():
    assert torch.__version__.startswith("1.13"), torch.__version__
    torch.set_num_threads(1)
    shutil.rmtree(PROFILES, ignore_errors=True)
    PROFILES.mkdir()
    for case in SOUND:
        save_sound(*case)
    save_large_mean()
    save_bfloat16()
    save_torch_encoder()
    save_steps()
    for case in PLANTED:
        save_planted(*case)
    (PROFILES / "index.json").write_text(json.dumps(index, indent=1) + "\n")
    shutil.rmtree(TRAINED, ignore_errors=True)
    for architecture in ("gpt2", "llama", "gemma"):
        save_trained_files(architecture)


if __name__ == "__main__":
    main()
