"""Scaled dot-product attention in plain operators, whose steps can be damaged one by one.

Undamaged it computes what the attention of transformers computes; DEForm's operators on masks, scores and
kernels change one of its fields.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
from typing import Any, Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

_numbers = itertools.count()


def _same(x: Tensor) -> Tensor:
    return x


@dataclasses.dataclass
class Attention:
    visible: Callable[[Tensor], Tensor] = _same
    """Changes the mask [batch, 1, queries, keys], True where a query sees a key."""
    rounded: Callable[[Tensor], Tensor] = _same
    """Applied to the queries and the keys of the scores."""
    rounded_values: Callable[[Tensor], Tensor] = _same
    """Applied to the weights and the values of the sum."""
    scaling: float | None = None
    """The factor of the scores; None: the module's own."""
    score_dropout: float = 0.0
    dropout: float | None = None
    """The rate of the dropout on weights; None: the module's own."""
    chunk: int | None = None
    """The number of queries that are computed at once; None: all."""
    heads: Callable[[Tensor], Tensor] = _same
    """Changes the output [batch, heads, queries, width]."""

    def __call__(self, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, visible: Tensor,
                 scaling: float, dropout: float) -> tuple[Tensor, Tensor]:
        """The output and the weights, both with the heads in the second dimension."""
        visible = self.visible(visible)
        scale = scaling if self.scaling is None else self.scaling
        rate = dropout if self.dropout is None else self.dropout * module.training
        rows = self.chunk or query.shape[2]
        outputs, weights = [], []
        for begin in range(0, query.shape[2], rows):
            part = slice(begin, begin + rows)
            scores = self.rounded(query[:, :, part]) @ self.rounded(key).transpose(-1, -2)
            scores = scores.to(query.dtype) * scale
            scores = scores.masked_fill(~visible[:, :, part], torch.finfo(scores.dtype).min)
            if self.score_dropout:
                scores = F.dropout(scores, self.score_dropout, module.training)
            weight = F.dropout(F.softmax(scores, -1), rate, module.training)
            outputs.append((self.rounded_values(weight) @ self.rounded_values(value)).to(value.dtype))
            weights.append(weight)
        return self.heads(torch.cat(outputs, 2)), torch.cat(weights, 2)


def visible_of(mask: Tensor | None, is_causal: bool, query: Tensor, key: Tensor) -> Tensor:
    """The mask as booleans, True where a query sees a key; None as transformers mean it."""
    n, m = query.shape[2], key.shape[2]
    if mask is None:
        seen = torch.ones(1, 1, n, m, dtype=torch.bool, device=query.device)
        seen = seen.tril(m - n) if is_causal and n > 1 else seen
    else:
        seen = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
        seen = seen[..., :m]
    return seen.expand(query.shape[0], seen.shape[1], n, m)


def replace(module: nn.Module, attention: Attention) -> None:
    """Has a module of BERT's, DistilBERT's or GPT-2's attention compute by `attention`."""
    def interface(module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None,
                  scaling: float = 1.0, dropout: float = 0.0, **more: Any) -> tuple[Tensor, Tensor]:
        visible = visible_of(mask, getattr(module, "is_causal", False), query, key)
        output, weights = attention(module, query, key, value, visible, scaling, dropout)
        return output.transpose(1, 2).contiguous(), weights

    name = f"deform-{next(_numbers)}"
    ALL_ATTENTION_FUNCTIONS.register(name, interface)
    module.config = copy.deepcopy(module.config)
    module.config._attn_implementation_internal = name


def replace_in_gpt_neo(module: nn.Module, attention: Attention) -> None:
    def attend(query: Tensor, key: Tensor, value: Tensor,
               mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        n, m = query.shape[2], key.shape[2]
        visible = module.bias[:, :, m - n:m, :m] & visible_of(mask, True, query, key)
        return attention(module, query, key, value, visible, 1.0, module.attn_dropout.p * module.training)

    module._attn = attend
