"""Trains a small PyTorch encoder with a bug, and writes its profile to profile.jsonl."""

import types

import torch
from torch import nn

torch.manual_seed(0)


# docs: model
class Sublayers(nn.Module):
    """A pre-norm layer whose feed-forward lacks its residual."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                          nn.Linear(4 * width, width))

    def forward(self, x):
        h = self.attention_norm(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return self.feed_forward(self.feed_forward_norm(x))  # x + is missing
# docs: end


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(256, 32)
        self.layers = nn.ModuleList(Sublayers() for _ in range(4))
        self.final_norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, 256)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.final_norm(x))
        loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        return types.SimpleNamespace(loss=loss)


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
batches = torch.randint(256, (3, 4, 16))

# docs: probe
from addnorm.probe import probe

p = probe(model, every=100)
for batch in batches:
    with p:
        loss = model(batch).loss
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
p.write("profile.jsonl")
# docs: end
