"""Times one sublayer's connection of four static lanes, forward and backward, against the same written in PyTorch,
eager and compiled: carry, write, read and RMSNorm. PyTorch's version works lane by lane, so that it fuses. All
gradients are computed.

 /usr/bin/python3 bench/lanes_vs_torch.py build/release/bin/lanes_bench
"""

import sys
import time

import torch
from torch_benchmark import RATIO_COLUMNS, ROUNDS, THREADS, Program, TorchPrograms, be_candidate, benchmark, ratios

ROWS, LANES = 4096, 4


def site(x, branch, carry, write, read, gamma):
    """Computes X' and y. The lanes are lists."""
    made = []
    for p in range(LANES):
        lane = write[p] * branch
        for i in range(LANES):
            lane = lane + carry[p, i] * x[i]
        made.append(lane)
    z = sum(read[p] * made[p].float() for p in range(LANES))
    y = z * torch.rsqrt(z.square().mean(-1, keepdim=True) + 1e-5) * gamma
    return made, y.to(branch.dtype)


class Torch:
    def __init__(self, how, direction, dtype, features):
        self.is_forward = direction == "forward"
        kind = torch.float32 if dtype == "f32" else torch.bfloat16

        def random(*shape, dtype=torch.float32):
            return torch.randn(*shape).to(dtype).requires_grad_()

        self.inputs = ([random(ROWS, features, dtype=kind) for _ in range(LANES)],
                       random(ROWS, features, dtype=kind), random(LANES, LANES), random(LANES), random(LANES),
                       random(features))
        self.leaves = [*self.inputs[0], *self.inputs[1:]]
        self.gradients = [torch.randn(ROWS, features).to(kind) for _ in range(LANES + 1)]
        self.site = torch.compile(site, dynamic=False) if how == "compiled" else site

    def run(self):
        start = time.perf_counter()
        made, y = self.site(*self.inputs)
        middle = time.perf_counter()
        outputs = [*made, y]
        torch.autograd.grad(outputs, self.leaves, [g.to(o.dtype) for g, o in zip(self.gradients, outputs)])
        return 1e3 * (middle - start if self.is_forward else time.perf_counter() - middle)


def main(program):
    torch_programs = TorchPrograms()
    print(f"{ROWS} rows of {LANES} lanes; {THREADS} threads, medians of {ROUNDS} rounds in turn, and how many times as "
          f"long as ours\neach of PyTorch's takes. {torch_programs}\n")
    print(f"{'':24}{'addnorm':>11}{RATIO_COLUMNS}")
    for dtype in "f32", "bf16":
        for features in 1024, 4096:
            for direction in "forward", "backward":
                words = direction, dtype, features
                times = benchmark({**torch_programs(*words), "addnorm": Program(program, *words)})
                name = f"{direction}, {dtype}, {features}"
                print(f"{name:24}{times['addnorm']:8.2f} ms{ratios(times, times['addnorm'])}", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--torch":
        be_candidate(Torch(*sys.argv[2:5], int(sys.argv[5])))
    else:
        main(sys.argv[1])
