"""Measures a sum of several lanes, and the coefficients by which it is made, where these were seen."""

from __future__ import annotations

from typing import Callable, List, Tuple

import torch
from torch import Tensor

from .flow import Sum
from .lanes import lane_numbers, precision_of
from .numbers import Numbers, value_numbers, wide


class LaneMeasurement:
    def __init__(self, total: Sum, shape: torch.Size, rows: Callable[[Tensor], Tuple[Tensor, int]]):
        self._sum, self._shape, self._rows = total, shape, rows
        self._site = total.lanes

    def numbers(self) -> List[Numbers]:
        """By lane."""
        behind = [self._rows(lane) for lane in self._lanes(self._site.behind, self._sum.total.numbers)]
        before = [self._rows(lane)[0] for lane in self._lanes(self._site.layout, self._site.before.numbers)]
        branch = wide(self._rows(self._sum.branch.numbers)[0]).flatten(0, 1)
        made_of = lane_numbers(together(before), branch, together([lane for lane, _ in behind]), precision_of(
            self._sum.total, self._site.before, self._sum.branch))
        return [{**value_numbers(*values), **numbers} for values, numbers in zip(behind, made_of)]

    def _lanes(self, layout, numbers: Tensor) -> List[Tensor]:
        return [lane.reshape(self._shape) for lane in layout.rows(numbers).unbind(1)]


def together(lanes: List[Tensor]) -> Tensor:
    """[rows, lanes, features]"""
    return torch.stack([wide(lane).flatten(0, 1) for lane in lanes], 1)
