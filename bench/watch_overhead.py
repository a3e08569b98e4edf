#!/usr/bin/env python3
"""Measures the processor time that addnorm.watch adds to a training step: python3 bench/watch_overhead.py

The model is a pre-norm decoder of 6 layers of width 256, with 8 sequences of 256 tokens, AdamW and one thread. Steps
with and without a measurement alternate; both are compared with steps outside of watch.
"""

import statistics
import time

import addnorm
import torch
import torch.nn.functional as F
from torch import nn

LAYERS, WIDTH, HEADS, BATCH, LENGTH, EVERY = 6, 256, 8, 8, 256, 3


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(self.norm_1(x)).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5
        scores = scores.masked_fill(torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1), float("-inf"))
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm_2(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.layers = nn.Embedding(256, WIDTH), nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 256)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, tokens = Model(), torch.randint(256, (BATCH, LENGTH))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)

    def step():
        start = time.process_time()
        optimizer.zero_grad()
        F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()
        return time.process_time() - start

    step()
    plain, watched = [], []
    for _ in range(5):
        plain += [step() for _ in range(EVERY)]
        with addnorm.watch(model, every=EVERY):
            watched += [step() for _ in range(EVERY)]
    usual = statistics.median(plain)
    measured = statistics.median(watched[::EVERY])
    between = statistics.median([t for i, t in enumerate(watched) if i % EVERY])
    print(f"PyTorch {torch.__version__}: a step takes {usual:.3f} s, a measured one {measured:.3f} s, one between "
          f"them {between:.3f} s")
    print(f"at every=100: {(measured - usual) / usual:.2f} % of training")


if __name__ == "__main__":
    main()
