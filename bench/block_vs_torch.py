"""Races our Transformer block against PyTorch's, forward and backward in turn, in float32.

    /usr/bin/python3 bench/block_vs_torch.py build/release/bin/block_bench

Exits 1 where ours is slower, 2 where PyTorch runs without OpenBLAS and the race would not be fair.
"""

import os
import re
import statistics
import subprocess
import sys
import time

import torch

BATCH, LENGTH, D_MODEL, N_HEADS, D_FF = 4, 256, 768, 12, 3072
THREADS, WARM_UP, ROUNDS = 2, 3, 15


def blas():
    """The library with which Debian's PyTorch multiplies: an alternative of libblas.so.3."""
    with open("/proc/self/maps") as maps:
        loaded = sorted(set(re.findall(r"/\S*/lib(?:open)?blas\S*", maps.read())))
    return ", ".join(loaded)


class Torch:
    def __init__(self, activation):
        self.layer = torch.nn.TransformerEncoderLayer(
            D_MODEL, N_HEADS, D_FF, dropout=0, activation=activation, batch_first=True,
            norm_first=True).train()
        self.x = torch.randn(BATCH, LENGTH, D_MODEL, requires_grad=True)
        self.dy = torch.randn(BATCH, LENGTH, D_MODEL)

    def run(self):
        start = time.perf_counter()
        self.layer.zero_grad(set_to_none=True)
        self.x.grad = None
        self.layer(self.x).backward(self.dy)
        return 1e3 * (time.perf_counter() - start)


class Ours:
    def __init__(self, program, activation):
        self.process = subprocess.Popen(
            [program, activation], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(THREADS)})

    def run(self):
        print("run", file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


def main(program):
    if "openblas" not in blas():
        print(f"PyTorch multiplies with {blas()}; install libopenblas0-pthread")
        return 2
    torch.set_num_threads(THREADS)
    print(f"One pre-norm block, forward + backward, float32: {BATCH} x {LENGTH} tokens, d_model "
          f"{D_MODEL}, {N_HEADS} heads, d_ff {D_FF}.\n"
          f"{THREADS} threads, medians of {ROUNDS} rounds, interleaved.\n"
          f"PyTorch {torch.__version__} multiplies with {blas()}")
    print(f"{'':6}{'PyTorch':>12}{'addnorm':>12}{'ratio':>8}")
    slower = False
    for activation in "relu", "gelu":
        contestants = Torch(activation), Ours(program, activation)
        times = [], []
        for _ in range(WARM_UP + ROUNDS):
            for contestant, of in zip(contestants, times):
                time.sleep(0.1)  # until the other's idle threads no longer spin
                of.append(contestant.run())
        theirs, ours = (statistics.median(of[WARM_UP:]) for of in times)
        print(f"{activation:6}{theirs:9.1f} ms{ours:9.1f} ms{theirs / ours:8.2f}")
        slower |= ours > theirs
    return int(slower)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
