"""Small PyTorch models for the tests of the doctor, sound or with a bug in one place."""

import torch
from torch import nn

WIDTH, HEADS, VOCABULARY = 24, 3, 40


class Layer(nn.Module):
    """A pre-norm layer. `bug` is the rule of a bug in the feed-forward, or None."""

    def __init__(self, bug=None):
        super().__init__()
        self.bug = bug
        self.attention_norm = nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.feed_forward_norm = nn.LayerNorm(WIDTH)
        self.feed_forward = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Dropout(0.1),
                                          nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x):
        h = self.attention_norm(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        f = self.feed_forward(self.feed_forward_norm(x))
        return {None: lambda: x + f, "residual-missing": lambda: f, "residual-twice": lambda: x + x + f}[
            self.bug]()


class Decoder(nn.Module):
    """Returns logits; with `targets`, a dict that also has the loss."""

    def __init__(self, layers=4, bugs=None):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer((bugs or {}).get(i)) for i in range(layers))
        self.final_norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, tokens, targets=None):
        self.calls += 1
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.final_norm(x))
        if targets is None:
            return logits
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        return {"logits": logits, "loss": loss}


def decoder(layers=4, bugs=None, seed=0):
    torch.manual_seed(seed)
    return Decoder(layers, bugs)


def tokens(batch=2, length=12, seed=1):
    return torch.randint(VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(seed))
