"""A module for `addnorm check models:small`."""

import torch
from torch import nn


# docs: small
def small():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True, norm_first=True)
    model = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(64), enable_nested_tensor=False)
    return model, torch.randn(2, 16, 64)
# docs: end


import addnorm  # noqa: E402

print(addnorm.check(*small()).verdict)
