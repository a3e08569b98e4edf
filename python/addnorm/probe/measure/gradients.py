"""Measures the sizes of gradients."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Callable, Dict, List, Optional, Sequence

from torch import Tensor

from ..._sharded import local_part
from ..find.parts import Layout
from ..find.sublayers import Sublayer
from ..fit.batch import Numbers
from ..fit.lanes import spread
from ..fit.values import size_numbers, wide
from ..record.graph import Value
from .measured import Measured
from .profile import Site

ENOUGH = 2**24  # the number of values of gradients that starts a batch of fits

Listeners = List[Callable[[Tensor], None]]  # functions that backward calls with the gradient of a value


class Gradients:
    """The gradients of one stream."""

    def __init__(self, measured: Measured, parameters: Dict[str, Tensor]) -> None:
        self._measured = measured
        self._is_trained = any(parameter.requires_grad for parameter in parameters.values())
        self._listeners: Dict[Value, Listeners] = {}

    def watch(self, value: Value) -> Optional[Listeners]:
        """Hooks the gradient of a value. Returns its listeners, or None if the value gets no gradient."""
        if value in self._listeners:
            return self._listeners[value]
        listeners: Listeners = []

        def arrived(values: Tensor) -> None:
            for listener in listeners:
                listener(values)

        if value.has_lost_edge:
            return None
        if value.edge is not None:
            self._measured.hook_edge(value.edge, arrived)
        elif value.is_current and value.tensor.requires_grad:
            self._measured.hook_gradient(value.tensor, arrived)
        else:
            return None
        self._listeners[value] = listeners
        return listeners

    def grade(self, site: Site, value: Value) -> None:
        listeners = self.watch(value)
        if listeners is not None and self._is_new(site):
            listeners.append(self._keeper(self._measured.entries[site]))

    def grade_lanes(self, site: Site, value: Value, layout: Layout) -> None:
        """Measures the gradient of each lane of a state."""
        listeners = self.watch(value)
        if listeners is not None and self._is_new(site):
            listeners.append(functools.partial(self._keep_lanes, site, layout))

    def _is_new(self, site: Site) -> bool:
        """Marks the gradient of a site as measured. Returns whether it was not marked before."""
        is_new = site not in self._measured.graded
        self._measured.graded.add(site)
        return is_new

    def grade_parameter(self, site: Site, leaf: Tensor, part: Callable[[Tensor], Tensor]) -> None:
        """leaf: the tensor that gets the gradient of the parameter."""
        if leaf.requires_grad and self._is_new(site):
            self._measured.hook_gradient(leaf, self._keeper(self._measured.entries[site], part))

    def _keeper(self, entry: Numbers, part: Callable[[Tensor], Tensor] = lambda g: g) -> Callable[[Tensor], None]:
        """Returns a listener that measures the first gradient."""
        calls = itertools.count()

        def keep(gradient: Tensor) -> None:
            if next(calls) == 0:
                self._fit_size(entry, part(local_part(gradient)))

        return keep

    def grade_branch(self, site: Site, sub: Sublayer) -> None:
        """Notes a gradient of 0 for a branch if one arrives at the lanes into which it is written, but none at it."""
        entry, of_total = self._measured.entries[site], self.watch(sub.total)
        arrived: List[bool] = []  # True for each gradient that arrived at the branch
        self._measured.finally_do(functools.partial(self.count, entry, arrived))
        if of_total is None or sub.joined.is_within_function or sub.joined.has_lost_edge:
            return
        of_total.append(lambda gradient: None if arrived else entry.update(grad_to_branch=0.0))
        of_branch = self.watch(sub.joined)
        if of_branch is not None:
            of_branch.append(lambda gradient: arrived.append(entry.pop("grad_to_branch", 0.0) == 0))

    def count(self, entry: Numbers, arrived: Sequence[bool] = ()) -> None:
        """Counts the gradient of a sum. arrived: True for each gradient that arrived at its branch."""
        # A gradient of 0, as before a head of zeros, has no factor. The rule gradient-zero judges it.
        if self._is_trained and self._measured.coverage.keeps_graph and entry.get("grad_rms") != 0:
            self._measured.coverage.count("gradients", bool(arrived) or "grad_to_branch" in entry)

    def _keep_lanes(self, site: Site, layout: Layout, gradient: Tensor) -> None:
        entry = self._measured.entries[site]
        if "grad_spread" not in entry:
            rows = wide(layout.rows(gradient))
            entry["grad_spread"] = spread(rows)
            for i in range(layout.lanes):
                self._fit_size(self._measured.entries[site._replace(lane=i or None)], rows[:, i])

    def _fit_size(self, entry: Numbers, gradient: Tensor) -> None:
        root = math.sqrt(max(1, gradient.numel()))
        self._measured.fit(size_numbers, [gradient], lambda numbers: entry.update(grad_rms=numbers["length"] / root))
        self._measured.run_fits(ENOUGH)
