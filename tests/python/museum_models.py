"""The sound models of the museum, with replaceable parts: a decoder, an encoder, and their components."""

import math
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, WIDTH, HEADS, LAYERS, BATCH, LENGTH = 29, 32, 4, 3, 4, 12


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def weights(self, scores):
        return (scores / math.sqrt(WIDTH // HEADS)).softmax(-1)

    def hide(self, scores):
        return scores

    def heads(self, x):
        return (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))

    def forward(self, x):
        q, k, v = self.heads(x)
        mixed = self.weights(self.hide(q @ k.transpose(-2, -1))) @ v
        return self.out(mixed.transpose(1, 2).flatten(2))


class CausalAttention(Attention):
    def hide(self, scores):
        queries, keys = scores.shape[-2:]
        seen = torch.ones(keys, keys, dtype=torch.bool).tril()[keys - queries:]
        return scores.masked_fill(~seen, -math.inf)


class FeedForward(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))


class LayerNorm(nn.Module):
    """LayerNorm as separate operators, as in many repositories."""

    def __init__(self, eps=1e-5):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))
        self.eps = eps

    def mean(self, x):
        return x.mean(-1, keepdim=True)

    def deviation(self, x):
        return (x.var(-1, unbiased=False, keepdim=True) + self.eps).sqrt()

    def forward(self, x):
        return (x - self.mean(x)) / self.deviation(x) * self.weight + self.bias


class RMSNorm(nn.Module):
    def __init__(self, eps=1e-5):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(WIDTH)), eps

    def scale(self, x):
        return (x.square().mean(-1, keepdim=True) + self.eps).rsqrt()

    def forward(self, x):
        return x * self.scale(x) * self.weight


class PreNorm(nn.Module):
    """A layer: x + F(norm(x)), twice."""

    def __init__(self, norm=lambda: nn.LayerNorm(WIDTH), attention=CausalAttention):
        super().__init__()
        self.norm_1, self.attention = norm(), attention()
        self.norm_2, self.mlp = norm(), FeedForward()
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        x = x + self.dropout(self.attention(self.norm_1(x)))
        return x + self.dropout(self.mlp(self.norm_2(x)))


class PostNorm(PreNorm):
    """norm(x + F(x)), twice, as in Vaswani et al. 2017."""

    def forward(self, x):
        x = self.norm_1(x + self.dropout(self.attention(x)))
        return self.norm_2(x + self.dropout(self.mlp(x)))


class Stack(nn.Module):
    """Layers over embedded tokens, and logits."""

    def __init__(self, layer=PreNorm, final=lambda: nn.LayerNorm(WIDTH), **config):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(64, WIDTH)
        self.layers = nn.ModuleList([layer() for _ in range(LAYERS)])
        self.norm, self.head = final(), nn.Linear(WIDTH, VOCABULARY, bias=False)
        if config:
            self.config = SimpleNamespace(**config)

    def embed(self, ids):
        return self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def decoder(layer=PreNorm, **options):
    """Returns a model that predicts the next token, so its layers must not attend to later tokens."""
    return Stack(layer, **options)


def encoder(layer=PreNorm, **options):
    """Returns a model that predicts tokens from both sides."""
    return Stack(lambda: layer(attention=Attention), **options)


def ids():
    return torch.randint(1, VOCABULARY, (BATCH, LENGTH), generator=torch.Generator().manual_seed(1))


def next_token(logits):
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids()[:, 1:].flatten())


def same_token(logits):
    return F.cross_entropy(logits.flatten(0, 1), ids().flatten())


def small(model):
    """Draws weights from N(0, 0.02²), the initial weights of most published decoders."""
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, 0, 0.02)
    return model


class CachedAttention(CausalAttention):
    """Appends keys and values to those of previous tokens."""

    def forward(self, x, past=None):
        q, k, v = self.heads(x)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        mixed = self.weights(self.hide(q @ k.transpose(-2, -1))) @ v
        return self.out(mixed.transpose(1, 2).flatten(2)), (k, v)


class CachedLayer(PreNorm):
    def __init__(self):
        super().__init__(attention=CachedAttention)

    def forward(self, x, past=None):
        f, cache = self.attention(self.norm_1(x), past)
        x = x + self.dropout(f)
        return x + self.dropout(self.mlp(self.norm_2(x))), cache


class CachedDecoder(Stack):
    """Returns logits, and on request its cache."""

    def __init__(self):
        super().__init__(CachedLayer)

    def place(self, past, length):
        return self.positions(torch.arange(past, past + length))

    def forward(self, ids, past_key_values=None, use_cache=False):
        past = 0 if past_key_values is None else past_key_values[0][0].shape[2]
        x, caches = self.tokens(ids) + self.place(past, ids.shape[1]), []
        for i, layer in enumerate(self.layers):
            x, cache = layer(x, past_key_values and past_key_values[i])
            caches.append(cache)
        logits = self.head(self.norm(x))
        return (logits, tuple(caches)) if use_cache else logits


class PaddedEncoder(Stack):
    """Pre-norm; attention_mask is true for tokens, false for padding."""

    def __init__(self):
        super().__init__(lambda: PreNorm(attention=Attention))

    def shown(self, attention_mask):
        return attention_mask

    def forward(self, ids, attention_mask):
        shown = self.shown(attention_mask)[:, None, None]
        for layer in self.layers:
            layer.attention.hide = lambda scores: scores.masked_fill(~shown, torch.finfo(scores.dtype).min)
        return super().forward(ids)
