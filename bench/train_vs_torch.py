"""Times a training step of our decoder against PyTorch's, in alternating runs, in float32 and, if the
processor has AVX-512, in bfloat16 (PyTorch's by autocast): forward, cross entropy, backward, clipping, AdamW.
Also prints the parts of our time.

 /usr/bin/python3 bench/train_vs_torch.py build/release/bin/train_bench

Exits with 1 if ours is slower, with 2 if PyTorch runs without OpenBLAS or MKL, which would make the benchmark unfair.
"""

import sys
import time

import torch
from torch_benchmark import (DTYPES, RATIO_COLUMNS, ROUNDS, THREADS, Program, TorchPrograms, prepared, be_candidate, benchmark,
                        ratios)

LAYERS, BATCH, LENGTH, D_MODEL, HEADS, VOCABULARY = 6, 4, 256, 768, 12, 256
COSTS = "products", "attention", "add and norm", "optimizer", "rest"


class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.token = torch.nn.Embedding(VOCABULARY, D_MODEL)
        self.position = torch.nn.Parameter(torch.zeros(LENGTH, D_MODEL))
        layer = torch.nn.TransformerEncoderLayer(
            D_MODEL, HEADS, 4 * D_MODEL, dropout=0, activation="gelu", batch_first=True,
            norm_first=True)
        self.stack = torch.nn.TransformerEncoder(layer, LAYERS, torch.nn.LayerNorm(D_MODEL))
        self.head = torch.nn.Linear(D_MODEL, VOCABULARY, bias=False)
        mask = torch.nn.Transformer.generate_square_subsequent_mask(LENGTH)
        self.causal = {"mask": mask, "is_causal": True} if hasattr(torch, "compile") else {"mask": mask}  # PyTorch 2

    def forward(self, tokens):
        return self.head(self.stack(self.token(tokens) + self.position, **self.causal))


class Torch:
    def __init__(self, how, dtype):
        self.is_bf16 = dtype == "bf16"
        self.decoder = prepared(how, Decoder().train())
        self.adamw = torch.optim.AdamW(self.decoder.parameters(), foreach=True)

    def run(self):
        text = torch.randint(VOCABULARY, (BATCH, LENGTH + 1))
        start = time.perf_counter()
        self.adamw.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.is_bf16):
            logits = self.decoder(text[:, :-1])
        loss = torch.nn.functional.cross_entropy(
            logits.float().reshape(-1, VOCABULARY), text[:, 1:].reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.decoder.parameters(), 1.0)
        self.adamw.step()
        return 1e3 * (time.perf_counter() - start)


def time_step(program, torch_programs, dtype):
    ours = Program(program, dtype, LAYERS, BATCH, LENGTH, D_MODEL, HEADS)
    times = benchmark({**torch_programs(dtype), "addnorm": ours})
    step, rate, *costs = ours.medians()
    tokens = 1e3 * BATCH * LENGTH
    print(f"{dtype:6}{tokens / step:9.0f} tokens/s{rate:9.3f} TFLOP/s{tokens / times['PyTorch']:9.0f} tokens/s"
          f"{ratios(times, step)}")
    shares = (f"{name} {cost / sum(costs):.1%}" for name, cost in zip(COSTS, costs))
    print("      " + ", ".join(shares), flush=True)
    return step > min(times["PyTorch"], times.get("compiled", step))


def main(program):
    torch_programs = TorchPrograms()
    print(f"A training step of {LAYERS} layers of width {D_MODEL}, batch {BATCH} x {LENGTH}; {THREADS} "
          f"threads, medians of {ROUNDS} rounds in turn.\n"
          f"{torch_programs}\n")
    print(f"{'':6}{'addnorm':>18}{'its products':>17}{'PyTorch':>18}{RATIO_COLUMNS}")
    return int(any([time_step(program, torch_programs, dtype) for dtype in DTYPES]))


if __name__ == "__main__":
    if sys.argv[1] == "--torch":
        be_candidate(Torch(*sys.argv[2:4]))
    else:
        sys.exit(main(sys.argv[1]))
