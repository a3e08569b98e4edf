"""Races PyTorch models against themselves converted by addnorm.torch, in turn, forward and backward: norms
alone, a residual sum and its norm, and a training step of a six-layer encoder.

    PYTHONPATH=build/release/python /usr/bin/python3 bench/converted_vs_torch.py

Exits 2 where PyTorch runs without OpenBLAS and the race would not be fair.
"""

import copy
import sys
import time

import torch
from torch import nn
from torch_race import ROUNDS, blas, prepare, race

import addnorm.torch

LAYERS, BATCH, LENGTH, D_MODEL, HEADS = 6, 8, 128, 256, 4
NORM_SHAPES = (BATCH, LENGTH, D_MODEL), (8, 512, 768)


class Sum(nn.Module):
    """What most models write."""

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return self.norm(x + x.detach())


class FusedSum(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = addnorm.torch.AddNorm(addnorm.torch.LayerNorm(features))

    def forward(self, x):
        return self.norm(x, x.detach())[0]


def encoder(norm_first):
    layer = nn.TransformerEncoderLayer(D_MODEL, HEADS, 4 * D_MODEL, batch_first=True,
                                       norm_first=norm_first)
    return nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(D_MODEL) if norm_first else None)


class Step:
    """Forward and backward; of a model also AdamW."""

    def __init__(self, module, shape, updates=False):
        self.module = module.train()
        self.adamw = torch.optim.AdamW(module.parameters(), foreach=True) if updates else None
        self.x = torch.randn(shape, requires_grad=True)
        self.dy = torch.randn(shape)

    def run(self):
        start = time.perf_counter()
        self.module.zero_grad(set_to_none=True)
        self.module(self.x).backward(self.dy)
        if self.adamw:
            self.adamw.step()
        return 1e3 * (time.perf_counter() - start)


def pairs():
    for shape in NORM_SHAPES:
        norm, rows = nn.LayerNorm(shape[-1]), f"{shape[0] * shape[1]}x{shape[2]}"
        ours = addnorm.torch.convert(copy.deepcopy(norm))
        yield f"LayerNorm {rows}", Step(norm, shape), Step(ours, shape)
        yield f"sum, LayerNorm {rows}", Step(Sum(shape[-1]), shape), Step(FusedSum(shape[-1]), shape)
    for name, norm_first in (("encoder, post-norm", False), ("encoder, pre-norm", True)):
        model, shape = encoder(norm_first), (BATCH, LENGTH, D_MODEL)
        ours = addnorm.torch.convert(copy.deepcopy(model))
        yield name, Step(model, shape, True), Step(ours, shape, True)


def main():
    if not prepare():
        return 2
    print(f"Forward and backward in float32; of encoders of {LAYERS} layers of width {D_MODEL}, batch {BATCH} x "
          f"{LENGTH}, with AdamW's\nstep; milliseconds, medians of {ROUNDS} rounds in turn.\n"
          f"PyTorch {torch.__version__} multiplies with {blas()}\n")
    print(f"{'':25}{'threads':>8}{'PyTorch':>10}{'converted':>11}{'ratio':>7}")
    for threads in 1, 2:
        torch.set_num_threads(threads)
        for name, *contestants in pairs():
            theirs, ours = race(contestants)
            print(f"{name:25}{threads:8}{theirs:10.2f}{ours:11.2f}{theirs / ours:7.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
