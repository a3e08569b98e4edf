"""Times PyTorch models against the same models converted by addnorm.torch, forward and backward, in alternating runs:
norms alone, a residual sum and its norm, and a training step of a six-layer encoder.

 PYTHONPATH=build/release/python /usr/bin/python3 bench/converted_vs_torch.py

Exits with 2 if PyTorch runs without OpenBLAS or MKL, which would make the benchmark unfair.
"""

import sys
import time

import torch
from torch import nn
from torch_benchmark import RATIO_COLUMNS, ROUNDS, TorchPrograms, prepared, be_candidate, benchmark, ratios

import addnorm.torch

LAYERS, BATCH, LENGTH, D_MODEL, HEADS = 6, 8, 128, 256, 4
NORM_SHAPES = (BATCH, LENGTH, D_MODEL), (8, 512, 768)


class Sum(nn.Module):
    """The sum and norm as most models write them."""

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
    """Forward and backward, and for a model also AdamW's step."""

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


# Keys are names. Values: the shape, PyTorch's module, our module or None for the converted
# one, and whether AdamW updates it.
JOBS = {}
for shape in NORM_SHAPES:
    rows = f"{shape[0] * shape[1]}x{shape[2]}"
    JOBS[f"LayerNorm {rows}"] = shape, nn.LayerNorm, None, False
    JOBS[f"sum, LayerNorm {rows}"] = shape, Sum, FusedSum, False
for name, norm_first in (("encoder, post-norm", False), ("encoder, pre-norm", True)):
    JOBS[name] = (BATCH, LENGTH, D_MODEL), lambda _, first=norm_first: encoder(first), None, True


def candidate(how, name, whose):
    shape, theirs, ours, updates = JOBS[name]
    if whose == "theirs":
        return Step(prepared(how, theirs(shape[-1])), shape, updates)
    module = ours(shape[-1]) if ours else addnorm.torch.convert(theirs(shape[-1])).model
    return Step(module, shape, updates)


def main():
    torch_programs = TorchPrograms()
    print(f"Forward and backward in float32; of encoders of {LAYERS} layers of width {D_MODEL}, batch {BATCH} x "
          f"{LENGTH}, with AdamW's\nstep; milliseconds, medians of {ROUNDS} rounds in turn, and how many times as "
          f"long as converted each of PyTorch's takes.\n{torch_programs}\n")
    print(f"{'':25}{'threads':>8}{'PyTorch':>10}{'converted':>11}{RATIO_COLUMNS}")
    for threads in 1, 2:
        for name in JOBS:
            times = benchmark({**torch_programs(name, "theirs", threads),
                          "converted": torch_programs.kept("eager", name, "ours", threads)})
            print(f"{name:25}{threads:8}{times['PyTorch']:10.2f}{times['converted']:11.2f}"
                  f"{ratios(times, times['converted'])}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        be_candidate(candidate(*sys.argv[2:5]), int(sys.argv[5]))
    else:
        main()
