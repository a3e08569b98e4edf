"""The numbers of weighted sums of lanes: what a sublayer reads, carries and writes. Stack has the formula."""

from __future__ import annotations

import contextlib
import functools
import itertools
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor, nn

from .formula import is_autocast, value_type

Form = Dict[str, Any]  # an object of the JSON that src/io/arrangement.h describes
Lanes = Union[Tensor, Tuple[Tensor, ...]]  # (…, lanes, features), or a tensor for each lane
Number = Union[float, Tensor]  # a tensor has one value for all features, or one for each
Numbers = Union[Tensor, List[List[Number]]]  # (…, to, from), or rows

EPSILON = 1e-6  # ε of N and of the maps, from DeepSeek-V4
SINKHORN_ITERATIONS = 20  # also from DeepSeek-V4
PERMUTATIONS = [list(itertools.permutations(range(n))) for n in range(6)]  # mhc-lite has at most 4 lanes


def listed(lanes: Lanes) -> Tuple[Tensor, ...]:
    return lanes.unbind(-2) if isinstance(lanes, Tensor) else lanes


def stacked(lanes: Lanes) -> Tensor:
    return lanes if isinstance(lanes, Tensor) else torch.stack(lanes, -2)


def rows(numbers: Numbers) -> List[List[Number]]:
    """Returns numbers that broadcast over features."""
    if isinstance(numbers, Tensor):
        return [list(row.unsqueeze(-2).unbind(-1)) for row in numbers.unbind(-2)]
    return numbers


def product(a: Tensor, b: Tensor) -> Tensor:
    """Computes a·b in a's type, also under autocast: 16 bits are too few for the numbers of a stream."""
    with torch.autocast(a.device.type, enabled=False) if is_autocast(a) else contextlib.nullcontext():
        return a @ b.to(a.dtype)


def weighted_sum(numbers: Sequence[Number], lanes: Sequence[Tensor]) -> Tensor:
    """Computes Σ number·lane, in the type of the first lane. A lane whose number is the constant 0 is not read."""
    read = [(number, lane) for number, lane in zip(numbers, lanes) if isinstance(number, Tensor) or number != 0]
    terms = [number * lane if isinstance(number, Tensor) or number != 1 else lane for number, lane in read]
    return functools.reduce(torch.add, terms).to(lanes[0].dtype) if terms else torch.zeros_like(lanes[0])


def mixed(numbers: Numbers, lanes: Lanes) -> List[Tensor]:
    """Returns a weighted sum of the lanes for each row of numbers. Numbers of tokens need a product of matrices; with
    others, the lanes of a tuple are added one by one, so that no copy of them is kept for backward."""
    if isinstance(numbers, Tensor) and (numbers.dim() > 2 or isinstance(lanes, Tensor)):
        lane = listed(lanes)[0]
        return [z.to(lane.dtype) for z in product(numbers, stacked(lanes)).unbind(-2)]
    return [weighted_sum(row, listed(lanes)) for row in rows(numbers)]


# Each source as (…, k, width): one row for all lanes, or one for each.
SOURCES: Dict[str, Callable[[Lanes, Lanes], Tensor]] = {
    "stream": lambda lanes, previous: stacked(lanes).flatten(-2).unsqueeze(-2),
    "previous": lambda lanes, previous: stacked(previous).flatten(-2).unsqueeze(-2),
    "lane": lambda lanes, previous: stacked(lanes),
    "last": lambda lanes, previous: listed(lanes)[-1].unsqueeze(-2),
}


def normalized(source: Tensor) -> Tensor:
    """Computes N, which divides by √(mean square + ε)."""
    x = source.to(value_type(source))
    return x * (x.square().mean(-1, keepdim=True) + EPSILON).rsqrt()


def _sinkhorn(logits: Tensor, shape: Tuple[int, int]) -> Tensor:
    """Divides by the sums of rows and of columns, alternating, until both are nearly 1."""
    numbers = logits.unflatten(-1, shape).softmax(-2) + EPSILON
    for step in range(1, 2 * SINKHORN_ITERATIONS):
        numbers = numbers / (numbers.sum(-1 if step % 2 else -2, keepdim=True) + EPSILON)
    return numbers


def _permutations(logits: Tensor, shape: Tuple[int, int]) -> Tensor:
    """Computes the sum of all permutation matrices, in lexicographic order, weighted by a softmax."""
    lanes, chosen = range(shape[0]), list(zip(PERMUTATIONS[shape[0]], logits.softmax(-1).unbind(-1)))
    return torch.stack([torch.stack([torch.stack([w for p, w in chosen if p[i] == j]).sum(0) for j in lanes], -1)
                        for i in lanes], -2)


MAPS: Dict[str, Callable[[Tensor, Tuple[int, int]], Tensor]] = {
    "none": lambda logits, shape: logits.unflatten(-1, shape),
    "sigmoid": lambda logits, shape: logits.unflatten(-1, shape).sigmoid() + EPSILON,
    "two-sigmoid": lambda logits, shape: 2 * logits.unflatten(-1, shape).sigmoid(),
    "softmax": lambda logits, shape: logits.unflatten(-1, shape).softmax(-1),
    "sinkhorn": _sinkhorn,
    "permutations": _permutations,
}
SQUASHES: Dict[str, Callable[[Tensor], Tensor]] = {"none": lambda x: x, "tanh": torch.tanh, "sigmoid": torch.sigmoid}


class Mix(nn.Module):
    """Computes the to × from numbers of a weighted sum: map(base + scale·act(weight·N(source)))."""

    base: Optional[nn.Parameter]
    scale: Optional[nn.Parameter]
    weight: Optional[nn.Parameter]

    def __init__(self, form: Form, **factory: Any) -> None:
        super().__init__()
        self.form, self.source = form, form["source"]
        self.constants: List[float] = form["base"]
        self.learned: List[int] = form["learned"]
        has_scale = form["weight"] is not None and form["scale"] != 1
        shapes = {"base": [len(self.learned)] if self.learned else None, "scale": [1] if has_scale else None,
                  "weight": form["weight"]}
        for name, shape in shapes.items():
            self.register_parameter(name, None if shape is None else nn.Parameter(torch.empty(*shape, **factory)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the initial values. The weights are 0, so the numbers are map(base) for every token."""
        with torch.no_grad():
            if self.base is not None:
                self.base.copy_(torch.tensor([self.constants[i] for i in self.learned], dtype=torch.float64))
            if self.scale is not None:
                self.scale.fill_(self.form["scale"])
            if self.weight is not None:
                self.weight.zero_()

    @property
    def is_constant(self) -> bool:
        """Whether no parameter changes the numbers, because a softmax over one lane is 1."""
        return bool(self.form["map"] == "softmax" and self.form["from"] == 1)

    def forward(self, source: Optional[Tensor], like: Tensor) -> Numbers:
        """source: N(source), or the units of a hidden layer; like: a lane of the stream, for type and device."""
        base, (to, width) = self._base(value_type(like)), (self.form["to"], self.form["from"])
        if self.weight is None and self.form["map"] == "none" and not isinstance(base, Tensor):
            return [base[i * width:(i + 1) * width] for i in range(to)]
        if not isinstance(base, Tensor):  # constants are written on the device, which needs no copy from the host
            is_one = len(set(self.constants)) == 1 and self.base is None
            base = torch.stack([b if isinstance(b, Tensor) else like.new_full((), b, dtype=value_type(like))
                                for b in (base[:1] if is_one else base)]).expand(len(base))
        if self.weight is not None and source is not None:
            made = SQUASHES[self.form["act"]](product(source, self.weight.t()).transpose(-1, -2).flatten(-2))
            base = base + (made if self.scale is None else self.scale.to(made.dtype) * made)
        return MAPS[self.form["map"]](base, (to, width))

    def _base(self, dtype: torch.dtype) -> Union[Tensor, List[Number]]:
        """Returns the base as a tensor if all its values are learned, else as constants and learned numbers."""
        if self.base is None:
            return list(self.constants)
        learned = SQUASHES[self.form["gate"]](self.base.to(dtype))
        if len(self.learned) == len(self.constants):
            return learned
        of_index = dict(zip(self.learned, learned.unbind()))
        return [of_index.get(i, constant) for i, constant in enumerate(self.constants)]
