"""Times our Transformer block against PyTorch's, forward and backward, in alternating runs, in float32 and,
if the processor has AVX-512, in bfloat16 (PyTorch's by autocast). Also prints the block's speed as a share of
the speed of its matrix products.

 /usr/bin/python3 bench/block_vs_torch.py build/release/bin/block_bench

Exits with 1 if ours is slower, with 2 if PyTorch runs without OpenBLAS or MKL, which would make the benchmark unfair.
"""

import sys
import time

import torch
from torch_benchmark import (DTYPES, RATIO_COLUMNS, ROUNDS, THREADS, Program, TorchPrograms, prepared, be_candidate, benchmark,
                        ratios)

SIZES = (4, 256, 768, 12), (8, 512, 512, 8)  # batch, length, d_model, heads


class Torch:
    def __init__(self, how, activation, dtype, sizes):
        batch, length, d_model, heads = sizes
        self.is_bf16 = dtype == "bf16"
        self.layer = prepared(how, torch.nn.TransformerEncoderLayer(
            d_model, heads, 4 * d_model, dropout=0, activation=activation, batch_first=True,
            norm_first=True).train())
        self.x = torch.randn(batch, length, d_model, requires_grad=True)
        self.dy = torch.randn(batch, length, d_model)

    def run(self):
        start = time.perf_counter()
        self.layer.zero_grad(set_to_none=True)
        self.x.grad = None
        with torch.autocast("cpu", torch.bfloat16, enabled=self.is_bf16):
            y = self.layer(self.x)
        y.backward(self.dy.to(y.dtype))
        return 1e3 * (time.perf_counter() - start)


def attention_share(sizes):
    """The operations of attention's own products, relative to those of the linear layers, forward and backward."""
    _, length, d_model, _ = sizes
    return 2 * length * d_model / (12 * d_model * d_model)


def time_block(program, torch_programs, activation, dtype, sizes):
    ours = Program(program, activation, dtype, *sizes)
    times = benchmark({**torch_programs(activation, dtype, *sizes), "addnorm": ours})
    block, products = ours.medians()
    share = products * (1 + attention_share(sizes)) / block
    name = "x".join(map(str, sizes[:3])) + f", {sizes[3]} heads, {activation}, {dtype}"
    print(f"{name:34}{block:8.1f} ms{share:8.0%}{times['PyTorch']:9.1f} ms{ratios(times, block)}", flush=True)
    return block > min(times["PyTorch"], times.get("compiled", block))


def main(program):
    torch_programs = TorchPrograms()
    print(f"One pre-norm block, forward + backward; {THREADS} threads, medians of {ROUNDS} rounds in turn. Then the "
          f"share of its\nproducts' rate that ours has, and how many times as long each of PyTorch's takes.\n"
          f"{torch_programs}\n")
    print(f"{'batch x length x d_model':34}{'addnorm':>11}{'rate':>8}{'PyTorch':>12}{RATIO_COLUMNS}")
    slower = [time_block(program, torch_programs, activation, dtype, sizes)
             for sizes in SIZES for dtype in DTYPES for activation in ("relu", "gelu")]
    return int(any(slower))


if __name__ == "__main__":
    if sys.argv[1] == "--torch":
        be_candidate(Torch(*sys.argv[2:5], tuple(map(int, sys.argv[5:]))))
    else:
        sys.exit(main(sys.argv[1]))
