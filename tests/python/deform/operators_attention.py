"""Operators on masks, projections, scores, positions, kernels and variants of attention."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .attention import Attention
from .catalog import NotApplicable, Scope, operator
from .parts import Target, wrap

BACKEND = "the backend computes the same numbers but for rounding"


def _attend(target: Target, attention: Attention) -> None:
    for layer in target.layers:
        layer.attend(attention)


# -- Masks --


@operator("MZM", "masking", "mask_application", rules="future-leak padding-leak",
          sight="influence of later tokens and of padding")
def zero_mask(target: Target, value: Any) -> None:
    """The additive mask is set to zero: each token sees all tokens, later ones and padding too."""
    _attend(target, Attention(visible=torch.ones_like))


@operator("MIM", "masking", "mask_application", rules="future-leak padding-leak",
          sight="influence of later tokens and of padding")
def invert_mask(target: Target, value: Any) -> None:
    """The mask is inverted: tokens see only what they should not; where nothing was hidden, all is."""
    _attend(target, Attention(visible=torch.logical_not))


@operator("MRM", "masking", "mask_generation", values=("batch", "head"), rules="padding-leak batch-leak",
          sight="influence of padding, and of another sequence's mask")
def reshape_mask(target: Target, value: str) -> None:
    """The mask is reshaped along a wrong axis: a sequence, or a head, gets the mask of another sequence."""
    def of_batch(visible: Tensor) -> Tensor:
        return visible.roll(1, 0)

    def of_heads(visible: Tensor) -> Tensor:
        return visible.transpose(0, 1).expand(visible.shape[0], -1, -1, -1)  # batch size = heads

    _attend(target, Attention(visible=of_batch if value == "batch" else of_heads))


@operator("MCB", "masking", "dynamic_mask", values=(0.1, 0.3, 0.5), kind="decoder", rules="future-leak",
          sight="influence of later tokens")
def break_causal_mask(target: Target, value: float) -> None:
    """A part of the later tokens becomes visible."""
    def visible(mask: Tensor) -> Tensor:
        n, m = mask.shape[-2:]
        chosen = torch.rand(n, m, generator=torch.Generator().manual_seed(7)).to(mask.device) < value
        return mask | (chosen & ~torch.ones(n, m, dtype=torch.bool, device=mask.device).tril(m - n))

    _attend(target, Attention(visible=visible))


# -- Projections --


def _zero_weights(target: Target, name: str) -> None:
    for layer in target.layers:
        getattr(layer, name).weight.zero_()


@operator("QZQ", "qkv", "parameter_initialization",
          rules="attention-constant gradient-zero weight-zeros parameter-unused gradient-missing",
          sight="queries, keys or values that are the same for all tokens")
def zero_queries(target: Target, value: Any) -> None:
    """The weights of the query projection are set to zero."""
    _zero_weights(target, "query")


@operator("QZK", "qkv", "parameter_initialization",
          rules="attention-constant gradient-zero weight-zeros parameter-unused gradient-missing",
          sight="queries, keys or values that are the same for all tokens")
def zero_keys(target: Target, value: Any) -> None:
    """The weights of the key projection are set to zero."""
    _zero_weights(target, "key")


@operator("QZV", "qkv", "parameter_initialization",
          rules="attention-constant gradient-zero weight-zeros parameter-unused gradient-missing idle-sublayer",
          sight="queries, keys or values that are the same for all tokens")
def zero_values(target: Target, value: Any) -> None:
    """The weights of the value projection are set to zero."""
    _zero_weights(target, "value")


@operator("QSW", "qkv", "head_interaction", scope=Scope.NEVER,
          why="queries and keys are exchangeable: the swapped model is as likely as the sound one")
def swap_queries_and_keys(target: Target, value: Any) -> None:
    """The query and the key projection of a layer are exchanged."""
    for layer in target.layers:
        for query, key in zip(layer.query.tensors, layer.key.tensors):
            kept = query.clone()
            query.copy_(key)
            key.copy_(kept)


@operator("QTH", "qkv", "head_interaction", values=("first_half", "alternating", "all"),
          sight="heads with the same weights",
          rules="heads-alike")
def tie_heads(target: Target, value: str) -> None:
    """Some heads get the query, key and value weights of one of them."""
    count = target.parts.model.config.num_attention_heads
    heads = {"first_half": range(count // 2), "alternating": range(0, count, 2), "all": range(count)}[value]
    for layer in target.layers:
        for tensor in (t for projection in layer.projections for t in projection.tensors):
            rows = tensor.unflatten(0, (count, -1))
            for head in heads[1:]:
                rows[head].copy_(rows[heads[0]])


@operator("QFG", "qkv", "dynamic_parameter_registration", rules="parameter-frozen",
          sight="parameters without requires_grad amid trained ones")
def freeze_projections(target: Target, value: Any) -> None:
    """The weights of queries, keys and values are not trained."""
    for layer in target.layers:
        for projection in layer.projections:
            for parameter in projection.module.parameters():
                parameter.requires_grad_(False)


@operator("QHD", "qkv", "dimension", values=("half_heads", "double_heads", "single_head"),
          sight="number of heads in the scores against the configuration's",
          rules="unlike-config")
def split_heads_otherwise(target: Target, value: str) -> None:
    """The features are split into another number of heads than the configuration says."""
    config = target.parts.model.config
    count = {"half_heads": config.num_attention_heads // 2, "double_heads": 2 * config.num_attention_heads,
             "single_head": 1}[value]
    for layer in target.layers:
        layer.set_heads(count, config.hidden_size // count)


# -- Scores --


@operator("SDS", "score", "normalization", rules="attention-scale", sight="factor between q·k and the softmax")
def drop_scale(target: Target, value: Any) -> None:
    """The scores are not divided by the root of a head's width."""
    if target.parts.family.name == "GPT-Neo":
        raise NotApplicable("GPT-Neo has no factor by design")
    for layer in target.layers:
        layer.core.scaling = 1.0


@operator("SPD", "score", "implementation", values=(0.1, 0.3, 0.5),
          sight="dropout between scores and softmax",
          rules="dropout-before-softmax")
def drop_scores(target: Target, value: float) -> None:
    """Dropout is applied to the scores before the softmax, in training."""
    _attend(target, Attention(score_dropout=value))


@operator("SUC", "score", "precision_handling", sight="a cast to fewer bits within a float32 model",
          rules="cast-to-half")
def round_scores(target: Target, value: Any) -> None:
    """Queries and keys are cast to float16, and the scores are computed in it."""
    _attend(target, Attention(rounded=lambda x: x.to(torch.float16)))


# -- Positions --


@operator("POE", "positional", "indexing", rules="parameter-unused gradient-missing", in_layers=False,
          sight="position embeddings without influence")
def omit_positions(target: Target, value: Any) -> None:
    """The position embeddings are replaced by zeros."""
    wrap(target.parts.positions, lambda plain, ids: torch.zeros_like(plain(ids)))


@operator("PSI", "positional", "relative_position", values=(1, 2, 4), in_layers=False,
          sight="position ids that do not begin where the family's do",
          rules="positions-wrong")
def shift_positions(target: Target, value: int) -> None:
    """Position ids are shifted by a number, within the table's length."""
    last = target.parts.positions.num_embeddings - 1
    wrap(target.parts.positions, lambda plain, ids: plain((ids + value).clamp(max=last)))


@operator("PTL", "positional", "interpolation", values=(1 / 8, 1 / 4, 1 / 2), in_layers=False,
          sight="position ids that repeat within a sequence",
          rules="positions-wrong")
def truncate_positions(target: Target, value: float) -> None:
    """Positions end after a part of the sequence; all later tokens have the last one.

    The catalog's 64, 128 and 256 are parts of BERT's 512 positions; these are the same parts of the batch.
    """
    first = (target.parts.positions.padding_idx or -1) + 1
    last = first + round(value * target.batch["input_ids"].shape[1]) - 1
    wrap(target.parts.positions, lambda plain, ids: plain(ids.clamp(max=last)))


# -- Kernels --


@operator("KSB", "kernel", "silent_fallback", scope=Scope.NEVER, why=BACKEND)
def use_plain_backend(target: Target, value: Any) -> None:
    """Attention is computed by plain operators in place of the fused kernel."""
    _attend(target, Attention())


@operator("KMD", "kernel", "feature_constraints", values=(0.1, 0.3, 0.5),
          sight="rate of the attention's dropout against the module's and the configuration's",
          rules="unlike-config")
def mismatch_kernel_dropout(target: Target, value: float) -> None:
    """The kernel drops weights at another rate than the module has."""
    config = target.parts.model.config
    rates = [getattr(config, name) for name in (
        "attention_probs_dropout_prob", "attention_dropout", "attn_pdrop") if hasattr(config, name)]
    if value in rates:
        raise NotApplicable("the rate is that of the configuration")
    _attend(target, Attention(dropout=value))


@operator("KFT", "kernel", "hardware_incompatibility", values=("dtype", "layout"), scope=Scope.NEVER, why=BACKEND)
def fall_back(target: Target, value: str) -> None:
    """A type or a layout that the fused kernel refuses makes attention fall back to another one."""
    if value == "dtype":
        cast = Attention(rounded=lambda x: x.double(), rounded_values=lambda x: x.double())
        _attend(target, cast)
    else:
        _attend(target, Attention(rounded=lambda x: x.transpose(-1, -2).contiguous().transpose(-1, -2)))


def _round_to_tf32(x: Tensor) -> Tensor:
    """Rounds to the 10 bits of TF32's fraction; the gradient passes unchanged."""
    bits = (x.detach().contiguous().view(torch.int32) + 0x1000) & ~0x1FFF
    return x + (bits.view(torch.float32) - x).detach()


@operator("KRP", "kernel", "numerical_precision", values=("fp16", "bf16", "tf32"),
          scopes={"tf32": Scope.NEVER}, sight="a cast to fewer bits within a float32 model",
          why="TF32 is a setting of the GPU that sound runs use too",
          rules="cast-to-half")
def reduce_precision(target: Target, value: str) -> None:
    """The products of attention are computed with fewer bits than the model has."""
    casts = {"fp16": lambda x: x.to(torch.float16), "bf16": lambda x: x.to(torch.bfloat16),
             "tf32": _round_to_tf32}
    _attend(target, Attention(rounded=casts[value], rounded_values=casts[value]))


@operator("KMC", "kernel", "kernel_memory", scope=Scope.NEVER, why=BACKEND)
def chunk_attention(target: Target, value: Any) -> None:
    """Attention is computed for a few queries at a time."""
    _attend(target, Attention(chunk=16))


# -- Variants --


@operator("VSH", "variant", "variant_configuration", sight="heads without influence on the output",
          rules="head-silent")
def leave_one_head(target: Target, value: Any) -> None:
    """The outputs of all heads but the first are set to zero."""
    def first_only(output: Tensor) -> Tensor:
        kept = torch.arange(output.shape[1], device=output.device) == 0
        return output * kept[:, None, None].to(output.dtype)

    _attend(target, Attention(heads=first_only))


@operator("VEC", "variant", "dynamic_dispatch", kind="encoder",
          sight="tokens of an encoder that see only earlier ones")
def mask_encoder_causally(target: Target, value: Any) -> None:
    """An encoder's attention gets a causal mask."""
    _attend(target, Attention(visible=lambda mask: mask & torch.ones_like(mask).tril()))
