# One Transformer block in PyTorch, with initial weights.

import torch
from torch import nn

d_model = 512
n_heads = 8
d_ff = 2048
batch, length = 2, 10
causal = False


class LayerNorm(nn.Module):
    # Divides by the unbiased deviation + epsilon. nn.LayerNorm divides by √(variance + 1e-5).
    def __init__(self, epsilon=1e-6):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(d_model))
        self.beta = nn.Parameter(torch.zeros(d_model))
        self.epsilon = epsilon

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return self.gamma * centred / (x.std(-1, keepdim=True) + self.epsilon) + self.beta


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.output = nn.Linear(d_model, d_model)
        self.up = nn.Linear(d_model, d_ff)
        self.down = nn.Linear(d_ff, d_model)
        self.attention_norm = LayerNorm()
        self.feed_forward_norm = LayerNorm()

    def attention(self, x):
        d_head = d_model // n_heads
        q, k, v = (
            linear(x).unflatten(-1, (n_heads, d_head)).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        )
        scores = q @ k.transpose(-2, -1) / d_head**0.5
        if causal:  # mask later tokens
            later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(later, -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        return self.output((weights @ v).transpose(1, 2).flatten(2))

    def feed_forward(self, x):
        return self.down(torch.relu(self.up(x)))

    def add_norm(self, x, norm, sublayer):
        return x + sublayer(norm(x))

    def forward(self, x):
        x = self.add_norm(x, self.attention_norm, self.attention)
        return self.add_norm(x, self.feed_forward_norm, self.feed_forward)


torch.manual_seed(0)
block = Block()
x = torch.randn(batch, length, d_model)
with torch.no_grad():
    y = block(x)

print("shape      ", " x ".join(map(str, y.shape)))
print("parameters ", sum(p.numel() for p in block.parameters()))
print(f"mean |y-x|  {(y - x).abs().mean():.4f}")
