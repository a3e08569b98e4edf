"""Orthogonal vectors, of which tests make tensors with known parts."""

import torch


def directions(count, size=1000, seed=0):
    """Returns orthogonal vectors of length 1."""
    torch.manual_seed(seed)
    return list(torch.linalg.qr(torch.randn(size, count, dtype=torch.float64))[0].T)
