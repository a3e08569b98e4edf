"""Races our Transformer block against PyTorch's, forward and backward in turn, in float32 and bfloat16
(PyTorch's by autocast), and says which share of the rate of its products the block has.

    /usr/bin/python3 bench/block_vs_torch.py build/release/bin/block_bench

Exits 1 where ours is slower, 2 where PyTorch runs without OpenBLAS or MKL and the race would not be fair.
"""

import sys
import time

import torch
from torch_race import ROUNDS, THREADS, Program, TorchPrograms, as_it_is, be_contestant, race

SIZES = (4, 256, 768, 12), (8, 512, 512, 8)  # batch, length, d_model, heads


class Torch:
    def __init__(self, activation, dtype, sizes):
        batch, length, d_model, heads = sizes
        self.is_bf16 = dtype == "bf16"
        self.layer = torch.nn.TransformerEncoderLayer(
            d_model, heads, 4 * d_model, dropout=0, activation=activation, batch_first=True,
            norm_first=True).train()
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
    """What attention's own products add to those of the linear layers, both with their backward."""
    _, length, d_model, _ = sizes
    return 2 * length * d_model / (12 * d_model * d_model)


def race_block(program, torch_programs, activation, dtype, sizes):
    ours = Program(program, activation, dtype, *sizes)
    theirs, as_is, block = race([*torch_programs(activation, dtype, *sizes), ours])
    _, products = ours.medians()
    share = products * (1 + attention_share(sizes)) / block
    name = "x".join(map(str, sizes[:3])) + f", {sizes[3]} heads, {activation}, {dtype}"
    print(f"{name:36}{theirs:9.1f} ms{block:9.1f} ms{theirs / block:8.2f}{share:12.0%}"
          f"{as_it_is(theirs, as_is, f'{as_is / block:12.2f}')}", flush=True)
    return block > theirs


def main(program):
    torch_programs = TorchPrograms()
    print(f"One pre-norm block, forward + backward; {THREADS} threads, medians of {ROUNDS} rounds in "
          f"turn.\n{torch_programs}\n")
    print(f"{'batch x length x d_model':36}{'PyTorch':>12}{'addnorm':>12}{'ratio':>8}{'of products':>12}{'as it is':>12}")
    races = [race_block(program, torch_programs, activation, dtype, sizes)
             for sizes in SIZES for dtype in ("f32", "bf16") for activation in ("relu", "gelu")]
    return int(any(races))


if __name__ == "__main__":
    if sys.argv[1] == "--torch":
        be_contestant(Torch(*sys.argv[2:4], tuple(map(int, sys.argv[4:]))))
    else:
        sys.exit(main(sys.argv[1]))
