"""Chooses the tokens whose values are measured."""

from __future__ import annotations

import math
from typing import Callable, NamedTuple, Optional

import torch
from torch import Tensor

from ..find.values import is_channels_first
from ..record.graph import Value

MOST_ROW_VALUES = 2**24  # the most values of one tensor that are measured


class Sampled(NamedTuple):
    """The values of the measured rows, [sequences, tokens, features], and the stride between their tokens."""
    rows: Tensor
    stride: Optional[int]  # the distance of two sampled tokens; None: the rows are not tokens

    @property
    def are_tokens(self) -> bool:
        return self.stride is not None


RowsOf = Callable[[Tensor], Sampled]


class Rows:
    """The measured tokens of one stream. shape: the shape of the stream. tokens: the most tokens to measure."""

    def __init__(self, shape: torch.Size, batch_first: bool, tokens: int) -> None:
        self.shape, self._batch_first, self._tokens = shape, batch_first, tokens

    def of(self, numbers: Tensor, shape: Optional[torch.Size] = None) -> Sampled:
        """Returns the values of evenly spaced tokens."""
        shape = self.shape if shape is None else shape
        t = (numbers.movedim(1, -1) if is_channels_first(numbers, shape) else numbers).reshape(shape)
        t = t.flatten(1, -2) if t.dim() > 2 else t[None]
        t = t if self._batch_first else t.transpose(0, 1)
        limit = max(2, min(self._tokens, MOST_ROW_VALUES // t.shape[-1]))
        stride = math.ceil(t.shape[1] / limit)
        sequences = max(1, limit // t.shape[1])
        return Sampled(t if stride == 1 and len(t) <= sequences else t[:sequences, ::stride], stride)

    def values(self, value: Value) -> Tensor:
        return self.of(value.recorded).rows

    def like_stream(self, tensor: Tensor) -> Tensor:
        """Returns the values of the measured tokens of a tensor that may have another number of features."""
        is_stream = tensor.numel() == self.shape.numel()
        return self.of(tensor, self.shape if is_stream else torch.Size((*self.shape[:-1], tensor.shape[-1]))).rows

    def of_heads(self, numbers: Tensor) -> Sampled:
        """Returns rows of queries or keys. Only their last axis has a known place, so rows are not tokens."""
        rows = numbers.flatten(0, -2)
        return Sampled(rows[None, ::math.ceil(len(rows) / max(2, self._tokens))], None)
