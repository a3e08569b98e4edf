"""Times a Llama block of Hugging Face's transformers, and its residual sum with its norm alone, forward and backward in
float32, in alternating runs: eager, compiled by torch.compile, compiled with addnorm.torch.Fusion, and converted by
addnorm.torch.convert. It needs PyTorch 2.5 or newer, transformers and a C++ compiler.

 PYTHONPATH=build/release/python python3 bench/fuse_vs_compile.py

Each candidate is a process of its own, with memory kept between calls; see torch_benchmark.py. --threads N measures
only that number of threads.
"""

import sys
import time

import torch
from torch import nn
from torch_benchmark import ROUNDS, THREADS, TorchPrograms, be_candidate, benchmark

import addnorm.torch

BATCH, LENGTH, WIDTH, HEADS, HIDDEN = 8, 256, 768, 12, 2048
HOWS = "eager", "compiled", "fused", "converted"


class Sum(nn.Module):
    """A residual sum, which the next sublayer reads too, and the norm that Llama writes out."""

    def __init__(self):
        super().__init__()
        from transformers.models.llama.modeling_llama import LlamaRMSNorm

        self.norm = LlamaRMSNorm(WIDTH)

    def forward(self, x):
        s = x + x.detach()
        return s + self.norm(s)


class Block(nn.Module):
    """One block with its final norm: three norms and two sums."""

    def __init__(self):
        super().__init__()
        from transformers import LlamaConfig, LlamaModel

        self.model = LlamaModel(LlamaConfig(hidden_size=WIDTH, intermediate_size=HIDDEN, num_hidden_layers=1,
                                            num_attention_heads=HEADS, vocab_size=8))

    def forward(self, x):
        return self.model(inputs_embeds=x, use_cache=False).last_hidden_state


JOBS = {"sum and norm": Sum, "block": Block}


class Step:
    """Forward and backward."""

    def __init__(self, how, name):
        torch.manual_seed(0)
        self.module = JOBS[name]()
        self.x, self.dy = torch.randn(BATCH, LENGTH, WIDTH, requires_grad=True), torch.randn(BATCH, LENGTH, WIDTH)
        if how == "converted":
            addnorm.torch.convert(self.module)
        elif how in ("compiled", "fused"):
            backend = addnorm.torch.Fusion() if how == "fused" else "inductor"
            self.module = torch.compile(self.module, backend=backend, dynamic=False, fullgraph=True)

    def run(self):
        start = time.perf_counter()
        self.module.zero_grad(set_to_none=True)
        self.x.grad = None
        self.module(self.x).backward(self.dy)
        return 1e3 * (time.perf_counter() - start)


def main(threads):
    programs = TorchPrograms()
    print(f"Forward and backward of {BATCH} x {LENGTH} x {WIDTH} in float32; milliseconds, medians of {ROUNDS} rounds, "
          f"and each\ndivided by fused, in brackets.\n{programs}\n")
    print(f"{'':14}{'threads':>8}" + "".join(f"{how:>18}" for how in HOWS))
    for count in threads:
        for name in JOBS:
            times = benchmark({how: programs.kept("compiled" if how in ("compiled", "fused") else "eager", how, name,
                                                  count) for how in HOWS})
            print(f"{name:14}{count:8}" + "".join(f"{times[how]:10.2f} ({times[how] / times['fused']:.2f})".rjust(18)
                                                  for how in HOWS), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--torch"]:
        how, name, count = sys.argv[3:6]
        be_candidate(Step(how, name), int(count))
    else:
        main([int(sys.argv[2])] if sys.argv[1:2] == ["--threads"] else range(1, THREADS + 1))
