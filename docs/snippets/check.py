"""Checks a small PyTorch decoder with a bug, and watches it during training."""

import torch
from torch import nn

torch.manual_seed(0)


# docs: model
class Layer(nn.Module):
    """A pre-norm layer whose feed-forward lacks its residual."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                          nn.Linear(4 * width, width))

    def forward(self, x):
        h, n = self.attention_norm(x), x.shape[1]
        mask = torch.ones(n, n, dtype=torch.bool).triu(1)
        x = x + self.attention(h, h, h, attn_mask=mask, need_weights=False)[0]
        return self.feed_forward(self.feed_forward_norm(x))  # x + is missing
# docs: end


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(256, 32)
        self.layers = nn.ModuleList(Layer() for _ in range(4))
        self.final_norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, 256)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.final_norm(x))


model = Model()
tokens = torch.randint(256, (4, 16))

# docs: check
import addnorm
report = addnorm.check(model, tokens)
print(report)
# docs: end

batches = torch.randint(256, (6, 4, 16))
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
logged = {}
import warnings
warnings.simplefilter("ignore")

# docs: watch
with addnorm.watch(model, every=100, log=lambda numbers, step: logged.update(numbers),
                   path="profile.jsonl"):
    for batch in batches:
        logits = model(batch)
        loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
# docs: end

print("\nWatched:")
for finding in addnorm.Report.read("profile.jsonl").findings:
    print(finding.name)
