"""Two implementations of a decoder whose parts can be replaced one by one, to plant
faults and their sound counterparts.

`Modules` consists of modules: RMSNorm, SwiGLU, norms of queries and keys. `Functions` has its parameters in the layer
and calls functions on them: LayerNorm, GELU, one projection for queries, keys and values. Both have the same steps.
"""

import math
import types

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, HEADS, LAYERS, VOCABULARY, LENGTH = 48, 4, 6, 40, 12


class RMSNorm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps))


def heads(x):
    return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def causal(scores):
    n = scores.shape[-1]
    return scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -1e9)


class Steps(nn.Module):
    """The steps that both implementations share."""

    def scores(self, q, k):
        return q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])

    def softmax(self, scores):
        return causal(scores).softmax(-1)

    def attend(self, h):
        q, k, v = (heads(t) for t in self.project(h))
        q, k = self.norm_queries(q), self.norm_keys(k)
        return self.combine((self.softmax(self.scores(q, k)) @ v).transpose(1, 2).flatten(2))

    def join(self, x, f):
        return x + f

    def join_attention(self, x, f):
        return self.join(x, f)

    def forward(self, x):
        x = self.join_attention(x, self.attend(self.norm_1(x)))
        return self.join(x, self.feed(self.norm_2(x)))


class SwiGLU(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up = (nn.Linear(WIDTH, 3 * WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * WIDTH, WIDTH, bias=False)

    def forward(self, h):
        return self.down(F.silu(self.gate(h)) * self.up(h))


class Modules(Steps):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = RMSNorm(WIDTH), RMSNorm(WIDTH)
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.q_norm, self.k_norm = RMSNorm(WIDTH // HEADS), RMSNorm(WIDTH // HEADS)
        self.mlp = SwiGLU()

    def project(self, h):
        return self.q_proj(h), self.k_proj(h), self.v_proj(h)

    def norm_queries(self, q):
        return self.q_norm(q)

    def norm_keys(self, k):
        return self.k_norm(k)

    def combine(self, values):
        return self.o_proj(values)

    def feed(self, h):
        return self.mlp(h)


class Functions(Steps):
    def __init__(self):
        super().__init__()
        for i in (1, 2):
            setattr(self, f"gamma_{i}", nn.Parameter(torch.ones(WIDTH)))
            setattr(self, f"beta_{i}", nn.Parameter(torch.zeros(WIDTH)))
        for name, (outputs, inputs) in {"w_qkv": (3 * WIDTH, WIDTH), "w_out": (WIDTH, WIDTH),
                                        "w_up": (4 * WIDTH, WIDTH), "w_down": (WIDTH, 4 * WIDTH)}.items():
            setattr(self, name, nn.Parameter(torch.randn(outputs, inputs) / math.sqrt(3 * inputs)))

    def norm_1(self, x):
        return F.layer_norm(x, (WIDTH,), self.gamma_1, self.beta_1)

    def norm_2(self, x):
        return F.layer_norm(x, (WIDTH,), self.gamma_2, self.beta_2)

    def project(self, h):
        return F.linear(h, self.w_qkv).chunk(3, -1)

    def norm_queries(self, q):
        return q

    def norm_keys(self, k):
        return k

    def combine(self, values):
        return F.linear(values, self.w_out)

    def feed(self, h):
        return F.linear(F.gelu(F.linear(h, self.w_up)), self.w_down)


class Decoder(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(make() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


MAKES = {"modules": Modules, "functions": Functions}


def decoder(make, seed=0):
    torch.manual_seed(seed)
    return Decoder(MAKES[make])


def tokens(seed=1):
    return torch.randint(VOCABULARY, (2, LENGTH), generator=torch.Generator().manual_seed(seed))


def replace(layer, **steps):
    """Replaces steps of a layer. Each replacement gets the layer, the original step and its arguments."""
    for name, step in steps.items():
        known = getattr(layer, name)
        layer.__dict__.pop(name, None)
        if name in layer._modules:
            layer._modules[f"{name}_module"] = layer._modules.pop(name)
        object.__setattr__(layer, name, types.MethodType(
            lambda self, *arguments, step=step, known=known: step(self, known, *arguments), layer))
