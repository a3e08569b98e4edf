"""The parts of the seven models by one set of names, so that an operator is written once."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Callable

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from . import attention as attending
from .models import Family

Change = Callable[[Tensor], Tensor]


@dataclasses.dataclass(frozen=True)
class Linear:
    """A linear map, or some outputs of one, whatever its class stores."""

    module: nn.Module
    outputs: slice = dataclasses.field(default_factory=lambda: slice(None))

    @property
    def weight(self) -> Tensor:
        """A view of the weights, [outputs, inputs]."""
        weight = self.module.weight
        return (weight.T if isinstance(self.module, Conv1D) else weight)[self.outputs]

    @property
    def bias(self) -> Tensor | None:
        return None if self.module.bias is None else self.module.bias[self.outputs]

    @property
    def tensors(self) -> list[Tensor]:
        return [t for t in (self.weight, self.bias) if t is not None]


@dataclasses.dataclass(frozen=True)
class Layer:
    core: nn.Module
    """The module that computes attention; it has the number of heads and the rate of dropout."""
    query: Linear
    key: Linear
    value: Linear
    up: Linear
    down: Linear
    activation: tuple[nn.Module, str]
    """The module that holds the activation, and the attribute's name."""
    norms: list[nn.LayerNorm]
    branch_dropouts: list[nn.Dropout]
    damage_sums: Callable[[Change], None]
    """Has both sums of the layer add a changed stream."""

    @property
    def projections(self) -> list[Linear]:
        return [self.query, self.key, self.value]

    def attend(self, attention: attending.Attention) -> None:
        replace = attending.replace_in_gpt_neo if hasattr(self.core, "_attn") else attending.replace
        replace(self.core, attention)

    def set_heads(self, count: int, width: int) -> None:
        for name in ("num_attention_heads", "num_heads", "n_heads"):
            if hasattr(self.core, name):
                setattr(self.core, name, count)
        for name in ("attention_head_size", "head_dim"):
            if hasattr(self.core, name):
                setattr(self.core, name, width)
        if hasattr(self.core, "scaling"):
            self.core.scaling = width**-0.5


@dataclasses.dataclass
class Parts:
    model: nn.Module
    family: Family
    layers: list[Layer]
    words: nn.Embedding
    positions: nn.Embedding
    types: nn.Embedding | None
    outer_norms: list[nn.LayerNorm]
    """The norms outside the layers: behind the embeddings, or behind the last layer."""
    head: nn.Linear

    @property
    def is_decoder(self) -> bool:
        return self.family.kind == "decoder"


def wrap(module: nn.Module, change: Callable[..., Any]) -> None:
    """Replaces module.forward by change(forward, *args, **named)."""
    plain = module.forward

    @functools.wraps(plain)
    def forward(*args: Any, **named: Any) -> Any:
        return change(plain, *args, **named)

    module.forward = forward


# -- BERT and RoBERTa --


def _bert_layer(layer: nn.Module) -> Layer:
    core, outputs = layer.attention.self, (layer.attention.output, layer.output)

    def damage_sums(change: Change) -> None:
        for output in outputs:
            wrap(output, lambda plain, branch, stream: plain(branch, change(stream)))

    return Layer(core, Linear(core.query), Linear(core.key), Linear(core.value),
                 Linear(layer.intermediate.dense), Linear(layer.output.dense),
                 (layer.intermediate, "intermediate_act_fn"), [o.LayerNorm for o in outputs],
                 [o.dropout for o in outputs], damage_sums)


def _bert(model: nn.Module, family: Family) -> Parts:
    base = model.base_model
    head = model.classifier
    return Parts(model, family, [_bert_layer(layer) for layer in base.encoder.layer],
                 base.embeddings.word_embeddings, base.embeddings.position_embeddings,
                 base.embeddings.token_type_embeddings, [base.embeddings.LayerNorm],
                 getattr(head, "out_proj", head))


# -- DistilBERT --


def _distilbert_layer(layer: nn.Module) -> Layer:
    core, ffn = layer.attention, layer.ffn

    def damage_sums(change: Change) -> None:
        def forward(stream: Tensor, attention_mask: Tensor | None = None, **named: Any) -> Tensor:
            branch, _ = layer.attention(stream, attention_mask=attention_mask, **named)
            stream = layer.sa_layer_norm(branch + change(stream))
            return layer.output_layer_norm(layer.ffn(stream) + change(stream))

        wrap(layer, lambda plain, hidden_states, *args, **named: forward(hidden_states, *args, **named))

    return Layer(core, Linear(core.q_lin), Linear(core.k_lin), Linear(core.v_lin), Linear(ffn.lin1),
                 Linear(ffn.lin2), (ffn, "activation"), [layer.sa_layer_norm, layer.output_layer_norm],
                 [ffn.dropout], damage_sums)


def _distilbert(model: nn.Module, family: Family) -> Parts:
    base = model.distilbert
    return Parts(model, family, [_distilbert_layer(layer) for layer in base.transformer.layer],
                 base.embeddings.word_embeddings, base.embeddings.position_embeddings, None,
                 [base.embeddings.LayerNorm], model.classifier)


# -- GPT-2 and GPT-Neo --


def _sums_of_pre_norm(block: nn.Module, is_tuple: bool) -> Callable[[Change], None]:
    """is_tuple: whether the block also returns the weights of attention."""
    def damage_sums(change: Change) -> None:
        def forward(stream: Tensor, cache: Any, mask: Any, named: dict[str, Any]) -> Any:
            caches = {("layer_past" if is_tuple else "cache"): cache}
            branch, weights = block.attn(block.ln_1(stream), attention_mask=mask, **caches, **named)
            stream = branch + change(stream)
            stream = block.mlp(block.ln_2(stream)) + change(stream)
            return (stream, weights) if is_tuple else stream

        def of_gpt2(plain: Any, stream: Tensor, cache: Any = None, mask: Any = None, *rest: Any,
                    encoder_attention_mask: Any = None, **named: Any) -> Any:
            return forward(stream, cache, mask, named)

        def of_gpt_neo(plain: Any, stream: Tensor, layer_past: Any = None, attention_mask: Any = None,
                       **named: Any) -> Any:
            return forward(stream, layer_past, attention_mask, named)

        wrap(block, of_gpt_neo if is_tuple else of_gpt2)

    return damage_sums


def _gpt2_layer(block: nn.Module) -> Layer:
    core, mlp, n = block.attn, block.mlp, block.attn.embed_dim
    query, key, value = (Linear(core.c_attn, slice(i * n, (i + 1) * n)) for i in range(3))
    return Layer(core, query, key, value, Linear(mlp.c_fc), Linear(mlp.c_proj), (mlp, "act"),
                 [block.ln_1, block.ln_2], [core.resid_dropout, mlp.dropout], _sums_of_pre_norm(block, False))


def _gpt_neo_layer(block: nn.Module) -> Layer:
    core, mlp = block.attn.attention, block.mlp
    return Layer(core, Linear(core.q_proj), Linear(core.k_proj), Linear(core.v_proj), Linear(mlp.c_fc),
                 Linear(mlp.c_proj), (mlp, "act"), [block.ln_1, block.ln_2],
                 [core.resid_dropout, mlp.dropout], _sums_of_pre_norm(block, True))


def _gpt(model: nn.Module, family: Family) -> Parts:
    base = model.transformer
    of_layer = _gpt_neo_layer if family.name == "GPT-Neo" else _gpt2_layer
    return Parts(model, family, [of_layer(block) for block in base.h], base.wte, base.wpe, None, [base.ln_f],
                 model.lm_head)


def parts_of(model: nn.Module, family: Family) -> Parts:
    if family.name == "DistilBERT":
        return _distilbert(model, family)
    return (_gpt if family.kind == "decoder" else _bert)(model, family)


@dataclasses.dataclass
class Target:
    """The model that an operator damages, its optimizer, and the layers that were chosen."""

    parts: Parts
    layers: list[Layer]
    is_whole: bool
    """Whether all layers were chosen."""
    optimizer: torch.optim.Optimizer
    batch: dict[str, Tensor]

    @property
    def norms(self) -> list[nn.LayerNorm]:
        """The norms of the layers; with all layers, also those outside them."""
        return [n for layer in self.layers for n in layer.norms] + self.parts.outer_norms * self.is_whole
