"""A decoder for next-token prediction that reads the next token, because its layers have no mask."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True)
model = nn.Sequential(nn.Embedding(50, 32), nn.TransformerEncoder(layer, 2, nn.LayerNorm(32)),
                      nn.Linear(32, 50))
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
tokens = torch.randint(50, (4, 16))

# docs: behaviour
from addnorm.behaviour import measure


def next_token(logits):
    return cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


lines, left_out = measure(model, (tokens,), {}, loss=next_token, optimizer=optimizer)
# docs: end

for line in lines:
    if line["check"] == "future-leak":
        print(line["check"], line["where"], line["declared"], sep="; ")
