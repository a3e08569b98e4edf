"""Trains a small GPT with an arrangement of Add & Norm, and prints its loss beside that of pre-norm.

    python3 train_placement.py --placement mhc --steps 300 text.txt

Both models have the same sublayers with the same initial weights, and see the same batches. Without a text file, the
text is this program's own and that of PyTorch's modules. train_placement.ipynb calls the functions of this file.
"""

import argparse
import inspect
import pathlib

import torch
import torch.nn.functional as F
from addnorm.torch import Stack
from torch import nn

D_MODEL, HEADS, CONTEXT, BATCH = 64, 4, 64, 16


class Attention(nn.Module):
    """Causal attention. An arrangement such as "mudd" gives it separate keys and values."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(D_MODEL, D_MODEL, bias=False) for _ in range(4))

    def forward(self, query, key, value):
        q, k, v = (linear(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
                   for linear, x in ((self.query, query), (self.key, key), (self.value, value)))
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        later = torch.ones_like(scores, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(later, float("-inf")).softmax(-1)
        return self.output((weights @ v).transpose(1, 2).flatten(2))


def feed_forward():
    return nn.Sequential(nn.Linear(D_MODEL, 4 * D_MODEL), nn.GELU(), nn.Linear(4 * D_MODEL, D_MODEL))


class GPT(nn.Module):
    def __init__(self, placement, layers):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(256, D_MODEL), nn.Embedding(CONTEXT, D_MODEL)
        self.head = nn.Linear(D_MODEL, 256, bias=False)
        sublayers = [make() for _ in range(layers) for make in (Attention, feed_forward)]
        self.stack = Stack(sublayers, placement, d_model=D_MODEL, norm="rms")
        for site in self.stack.sites:  # DeepNorm begins with smaller weights
            for name, weight in site.sublayers.named_parameters():
                if weight.dim() == 2 and not name.startswith(("0.query", "0.key")):
                    weight.data *= site.initial_gain

    def forward(self, tokens):
        return self.head(self.stack(self.tokens(tokens) + self.positions.weight[:tokens.shape[1]]))


def text_of(path=None):
    """Returns the bytes of a file, or of this program and of PyTorch's modules, as a tensor."""
    sources = pathlib.Path(__file__).read_text() + inspect.getsource(nn.modules.activation)
    return torch.tensor(list(path.read_bytes() if path else sources.encode()))


def batch_of(text, generator=None):
    """Returns random windows of the text, and the bytes that follow each of their bytes."""
    starts = torch.randint(len(text) - CONTEXT - 1, (BATCH,), generator=generator)
    windows = torch.stack([text[start:start + CONTEXT + 1] for start in starts])
    return windows[:, :-1], windows[:, 1:]


def train(placement, steps=300, *, layers=6, lr=3e-3, seed=0, text=None):
    """Trains a GPT and returns the loss of each step. text: a tensor of bytes; None: that of text_of()."""
    torch.manual_seed(seed)
    model, text = GPT(placement, layers), text_of() if text is None else text
    optimizer = torch.optim.AdamW(model.parameters(), lr)
    generator, losses = torch.Generator().manual_seed(seed), []
    for _ in range(steps):
        tokens, targets = batch_of(text, generator)
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def print_losses(losses):
    """Prints the mean loss in each tenth of the training. losses: those of train(), by name."""
    size = min(map(len, losses.values())) // 10
    print("steps  " + "  ".join(f"{name:>8}" for name in losses))
    for end in range(size, 10 * size + 1, size):
        means = {name: sum(found[end - size:end]) / size for name, found in losses.items()}
        print(f"{end:5}  " + "  ".join(f"{mean:{max(8, len(name))}.3f}" for name, mean in means.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", nargs="?", type=pathlib.Path, help="a text file")
    parser.add_argument("--placement", default="mhc", help="a name of Stack.placements(), or post:3+pre (mhc)")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--steps", type=int, default=300, help="at least 10")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.steps < 10:
        parser.error(f"--steps is {args.steps}, must be at least 10")
    text = text_of(args.text)
    print_losses({name: train(name, args.steps, layers=args.layers, lr=args.lr, seed=args.seed, text=text)
                  for name in dict.fromkeys(["pre", args.placement])})


if __name__ == "__main__":
    main()
