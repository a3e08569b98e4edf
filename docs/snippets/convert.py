"""Runs the norms and residual sums of PyTorch's encoder on this library's kernels."""

# docs: convert
import torch
from addnorm.torch import convert

torch.manual_seed(0)
layer = torch.nn.TransformerEncoderLayer(64, 4, 256, dropout=0, batch_first=True, norm_first=True)
model = torch.nn.TransformerEncoder(layer, 2)
x = torch.randn(8, 16, 64)
before = model(x)

print(convert(model))  # in place: keeps parameters, state and hooks
after = model(x)
after.square().mean().backward()
# docs: end

print(type(model.layers[0]).__module__)
print("the same within 1e-5:", torch.allclose(before, after, atol=1e-5))
