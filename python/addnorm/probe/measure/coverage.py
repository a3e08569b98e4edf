"""Counts what was measured, and lists the parts that were left out."""

from __future__ import annotations

from typing import Any, Dict, List

import torch

from ..._left_out import LeftOut
from ..._structure import parent_of
from ..find.streams import Found


class Coverage:
    """The counts of measured and seen parts, and the parts that could not be measured."""

    def __init__(self) -> None:
        self.left_out: List[LeftOut] = []
        self.keeps_graph = True  # whether gradients are enabled when the model is called
        self._seen = {"sums": [0, 0], "norms": [0, 0], "attentions": [0, 0], "gradients": [0, 0]}
        self._without_graph: Dict[str, None] = {}  # layers whose gradients cannot be measured, in order
        self._others: Dict[str, torch.Size] = {}  # streams of other shapes, by the lists of their layers

    def begin(self, found: Found, keeps_graph: bool) -> None:
        """Begins a forward pass. found: the streams in it."""
        self.keeps_graph = keeps_graph
        for where, why in found.missed.items():
            self.miss(where, why)
        for layer, shape in found.others.items():
            self._others.setdefault(parent_of(layer) or layer, shape)

    def count(self, what: str, is_measured: bool) -> None:
        self._seen[what][0] += is_measured
        self._seen[what][1] += 1

    def miss(self, where: str, why: str) -> None:
        """Notes a part that is not measured, once for all steps."""
        missed = LeftOut(where or "the model", why)
        if missed not in self.left_out:
            self.left_out.append(missed)

    def miss_error(self, where: str, error: Exception) -> None:
        """Notes an error of the first layer that has it."""
        why = f"{type(error).__name__}: {error}"
        if not any(missed.why == why for missed in self.left_out):
            self.miss(where, why)

    def miss_sum(self, where: str, why: str) -> None:
        self.count("sums", False)
        self.miss(where, why)

    def miss_graph(self, layer: str) -> None:
        """Notes a layer that runs without a graph, if gradients are enabled for the model."""
        if self.keeps_graph:
            self._without_graph[layer] = None

    def as_dict(self, has_lanes: bool) -> Dict[str, Any]:
        """Returns [measured, seen] of sums, norms, attentions and gradients, and the parts that were left out.
        has_lanes: whether the stream has lanes; then other streams are not left out."""
        others = [LeftOut(where, f"the layers also take and return a stream of [{', '.join(map(str, shape))}], whose "
                          "sums and norms were not measured")
                  for where, shape in self._others.items() if not has_lanes]
        parts = self.left_out + others + self._without_gradients()
        return {**self._seen, "left_out": [part._asdict() for part in parts]}

    def _without_gradients(self) -> List[LeftOut]:
        if not self._without_graph:
            return []
        first, *others = self._without_graph
        where = f"{first} and {len(others)} more" if others else first or "the model"
        return [LeftOut(where, "the forward ran without a graph, as in a reentrant checkpoint or under "
                        "torch.no_grad, so the gradients in it were not judged")]
