#!/usr/bin/env python3
"""Writes data/*.safetensors, the expected values of tests/golden_test.cc, with PyTorch 1.13.

A file holds one case: inputs and parameters as "value.NAME", the output, a random gradient of the output, and the
resulting gradients of all inputs and parameters as "gradient.NAME".

    generate.py              writes all files
    generate.py reproduce    prints the expected values of src/lab/reproduce_test.cc
"""

import pathlib
import re
import sys
import zlib

import torch
from torch import nn

from safetensors_writer import save

DATA = pathlib.Path(__file__).parent / "data"
BATCH, LENGTH, KEYS, D_MODEL, HEADS, D_FF = 2, 7, 5, 20, 4, 36  # not multiples of a SIMD vector

# PyTorch's names and ours. The substitutions are applied in order.
RENAMES = [
    (r"(^|norm\d?\.)weight$", r"\1gamma"),
    (r"(^|norm\d?\.)bias$", r"\1beta"),
    (r"^norm\.", "final_norm."),
    (r"norm1", "attention_add_norm.{slot}"),
    (r"norm2", "feed_forward_add_norm.{slot}"),
    (r"self_attn", "attention"),
    (r"in_proj_", "in_proj."),
    (r"out_proj", "output"),
    (r"linear1", "feed_forward.up"),
    (r"linear2", "feed_forward.down"),
]


class RmsNorm(nn.Module):
    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


class SsNorm(nn.Module):
    """Park et al. 2025 (arXiv 2506.19697), with RMSNorm's scale: one gain for all features."""

    def __init__(self, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.eps = eps

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)


class DyT(nn.Module):
    """Zhu et al. 2025 (arXiv 2503.10622)."""

    def __init__(self, d_model):
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1) * 0.5)
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        return self.weight * torch.tanh(self.alpha * x) + self.bias


class Derf(DyT):
    """arXiv 2512.10938."""

    def __init__(self, d_model):
        super().__init__(d_model)
        self.shift = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return self.weight * torch.erf(self.alpha * x + self.shift) + self.bias


class DocumentNorm(nn.Module):
    """Document 000's LayerNorm."""

    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return self.weight * (centred / (x.std(-1, keepdim=True) + self.eps)) + self.bias


class DocumentAttention(nn.Module):
    """Document 000's MultiHeadAttention."""

    def __init__(self, d_model, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.output = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        q, k, v = (projection(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for projection in (self.query, self.key, self.value))
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return self.output((torch.softmax(scores, -1) @ v).transpose(1, 2).flatten(2))


class DocumentBlock(nn.Module):
    """Document 000's TransformerBlock. Its random numbers depend on this order of construction."""

    def __init__(self, d_model, heads, d_ff):
        super().__init__()
        self.attention = DocumentAttention(d_model, heads)
        self.norm1 = DocumentNorm(d_model)
        self.norm2 = DocumentNorm(d_model)
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.linear2(torch.relu(self.linear1(self.norm2(x))))


def our_tensors(kind, prefix, slot, named_tensors):
    """Returns {kind.name: tensor} with PyTorch's parameters renamed and packed ones split."""
    tensors = {}
    for name, tensor in named_tensors:
        for pattern, replacement in RENAMES:
            name = re.sub(pattern, replacement.replace("{slot}", slot), name)
        parts = ("query", "key", "value") if "in_proj" in name else ("",)
        for part, piece in zip(parts, tensor.chunk(len(parts))):
            tensors[f"{kind}.{prefix}{name.replace('in_proj', part)}"] = piece
    return tensors


def save_case(name, module, *, prefix, slot="", call=None, extra=None, **shapes):
    """Writes a case. `shapes` are those of the inputs; `call` calls the module with them."""
    torch.manual_seed(zlib.crc32(name.encode()))
    for parameter in module.parameters():
        is_matrix = parameter.dim() > 1
        nn.init.normal_(parameter, 0 if is_matrix else 0.7, 0.3 if is_matrix else 0.2)
        parameter.grad = None
    inputs = {key: (torch.randn(shape) * 1.5 + 0.5).requires_grad_()
              for key, shape in shapes.items()}
    y = (call or module)(*inputs.values())
    dy = torch.randn_like(y)
    y.backward(dy)
    tensors = {
        "output": y,
        "d_output": dy,
        **{f"value.{key}": x for key, x in inputs.items()},
        **{f"gradient.{key}": x.grad for key, x in inputs.items()},
        **our_tensors("value", prefix, slot, module.named_parameters()),
        **our_tensors("gradient", prefix, slot,
                      ((key, p.grad) for key, p in module.named_parameters())),
        **{key: b for key, b in module.named_buffers() if b.is_floating_point()},
        **(extra or {}),
    }
    save(DATA / f"{name}.safetensors", {key: t.detach().numpy() for key, t in tensors.items()})


def norms():
    def case(name, module, *shape):
        save_case(name, module, prefix="norm.", x=shape)

    case("layer_norm", nn.LayerNorm(37), 3, 11, 37)
    case("rms_norm", RmsNorm(37), 3, 11, 37)
    case("document_norm", DocumentNorm(37), 3, 11, 37)
    case("ss_norm", SsNorm(), 3, 11, 37)
    case("dyt", DyT(37), 3, 11, 37)
    case("derf", Derf(37), 3, 11, 37)
    case("group_norm_of_rows", nn.GroupNorm(3, 12), 19, 12)
    case("group_norm", nn.GroupNorm(3, 6), 5, 6, 13)
    case("instance_norm", nn.InstanceNorm1d(7, affine=True), 5, 7, 13)
    for suffix, shape in ("", (5, 7, 13)), ("_of_rows", (19, 7)):
        module = nn.BatchNorm1d(7)
        case(f"batch_norm{suffix}_training", module, *shape)
        case(f"batch_norm{suffix}_evaluation", module.eval(), *shape)


def attentions():
    x = (BATCH, LENGTH, D_MODEL)
    keys = (BATCH, KEYS, D_MODEL)
    causal = torch.ones(LENGTH, LENGTH).triu(1).bool()
    padding = torch.arange(LENGTH) >= torch.tensor([[LENGTH], [LENGTH - 3]])
    blocked = torch.arange(LENGTH**2).reshape(LENGTH, LENGTH) % 3 == 1

    def case(name, extra=None, **masks):
        module = nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True)
        save_case(name, module, prefix="attention.", extra=extra, x=x,
                  call=lambda x: module(x, x, x, **masks)[0])

    case("attention")
    case("attention_causal", attn_mask=causal)
    case("attention_key_padding", {"key_padding": padding.byte()}, key_padding_mask=padding)
    case("attention_blocked", {"blocked": blocked.byte()}, attn_mask=blocked)
    cross = nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True)
    save_case("attention_cross", cross, prefix="attention.", query=x, key=keys, value=keys,
              call=lambda q, k, v: cross(q, k, v)[0])
    document = DocumentAttention(D_MODEL, HEADS)
    save_case("attention_document", document, prefix="attention.", x=x,
              call=lambda x: document(x, ~causal))


def stacks():
    def case(name, module, prefix, slot):
        save_case(name, module, prefix=prefix, slot=slot, x=(BATCH, LENGTH, D_MODEL))

    def layer(norm_first, activation):  # training mode has no fast path
        return nn.TransformerEncoderLayer(D_MODEL, HEADS, D_FF, dropout=0, activation=activation,
                                          batch_first=True, norm_first=norm_first)

    for activation in "relu", "gelu":
        case(f"post_{activation}", layer(False, activation), "layers.0.", "after")
        case(f"pre_{activation}", layer(True, activation), "layers.0.", "before")
    encoder = nn.TransformerEncoder(layer(True, "gelu"), 2, nn.LayerNorm(D_MODEL))
    case("pre_encoder", encoder, "", "before")
    case("document_block", DocumentBlock(D_MODEL, HEADS, D_FF), "layers.0.", "before")


def reproduce(seed):
    """Prints the numbers of document 000 after manual_seed(seed)."""
    torch.manual_seed(seed)
    x = torch.randn(2, 4, 8) * 10 + 5
    y = DocumentNorm(8)(x)
    figures = [f(t, -1)[0, 0].item() for t in (x, y) for f in (torch.mean, torch.std)]
    torch.manual_seed(seed)
    block = DocumentBlock(512, 8, 2048)
    x = torch.randn(2, 10, 512)
    figures.append((block(x) - x).abs().mean().item())
    return figures, sum(p.numel() for p in block.parameters())


def main():
    assert torch.__version__.startswith("1.13"), torch.__version__
    if sys.argv[1:] == ["reproduce"]:
        for seed in 0, 1, 42, 1234:
            print(seed, *reproduce(seed))
        return
    DATA.mkdir(exist_ok=True)
    norms()
    attentions()
    stacks()


if __name__ == "__main__":
    main()
