"""Measures parameters and their gradients."""

from __future__ import annotations

from typing import Callable, Optional

from torch import Tensor

from ..._sharded import is_sharded, local_part
from ..find.names import stem_of, weight_named
from ..find.parts import Linear
from ..find.sublayers import Sublayer
from ..fit.batch import Numbers
from ..fit.values import moment_numbers, read_moments, read_without_min
from ..record.graph import Graph
from .gradients import Gradients
from .measured import Measured
from .profile import Site


class WeightMeasurement:
    """Measures the parameters of one stream."""

    def __init__(self, measured: Measured, gradients: Gradients, graph: Graph) -> None:
        self._measured, self._gradients = measured, gradients
        self._parameters, self._leaves = graph.parameters, graph.leaves

    def record_weights(self, site: Site, sub: Sublayer) -> None:
        """Measures the weights of a sublayer's linear maps."""
        linears = sub.branch.linears
        is_bottleneck = sub.kind == "feed_forward" and weight_named(stem_of(linears[-1].weight), False) == "up"
        by_order = {len(linears) - 1: "output"} if sub.kind == "attention" else \
            dict(zip(range(len(linears))[-2:], ("up", "down")))
        for i, linear in enumerate(linears):
            self._record_weight(site, linear, by_order.get(i), is_bottleneck)

    def _record_weight(self, site: Site, linear: Linear, by_order: Optional[str], is_bottleneck: bool) -> None:
        """is_bottleneck: whether the map belongs to an adapter, whose down projection precedes the up projection."""
        weight = self._parameters.get(linear.weight)
        if weight is None or not weight.is_floating_point() or weight.dim() != 2 or not self.is_first(weight, site):
            return
        named = None if is_bottleneck else weight_named(stem_of(linear.weight), site.sublayer == "attention")
        which = named or by_order
        if which is None:
            return
        names, dim = which.split("+"), int(linear.is_flipped)
        outputs, inputs = weight.shape[dim], weight.shape[1 - dim]
        if outputs % len(names) or len(names) == 3 and outputs != 3 * inputs or which == "gate" and outputs < inputs:
            return  # grouped keys and values have an unknown layout, and a small gate is a router of experts
        size = outputs // len(names)
        for i, name in enumerate(names):
            def part(tensor: Tensor, i: int = i) -> Tensor:
                return tensor.narrow(dim, i * size, size)

            self.record_parameter(site._replace(weight=name), linear.weight, read_without_min,
                                   part if len(names) > 1 else None)

    def record_parameter(self, site: Site, name: str, read: Callable[[Numbers], Numbers] = read_moments,
                          part: Optional[Callable[[Tensor], Tensor]] = None) -> None:
        """Measures a parameter and its gradient.

        part: returns the part to measure; None measures the whole parameter. The whole of a sharded parameter is
        measured by its local shard, and a part of it is not measured.
        """
        parameter = self._parameters[name]
        if site not in self._measured.entries:
            entry: Numbers = {}
            self._measured.entries[site] = entry
            values = local_part(parameter) if part is None else None if is_sharded(parameter) else part(parameter)
            if values is not None and values.numel() > 0:
                self._measured.fit(moment_numbers, [values.flatten()], lambda numbers: entry.update(read(numbers)))
        self._gradients.grade_parameter(site, self._leaves.get(name, parameter), part or (lambda gradient: gradient))

    def is_first(self, parameter: Tensor, site: Site) -> bool:
        """Whether no other layer used the parameter earlier in this step."""
        return self._measured.owners.setdefault((site.step, id(parameter)), site.layer) == site.layer
