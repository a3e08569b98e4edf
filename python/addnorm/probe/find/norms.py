"""Finds norms in the operators of a forward pass: norm operators, and norms written with elementary operators."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Tuple

from ..record.graph import Leave, Op, Value
from .norm_names import BETAS, GAMMAS
from .operators import CASTS, FACTORS, LENGTHS, NORMS, NORM_ARITHMETIC, REDUCTION, SCALING
from .parts import Norm
from .values import StreamValues


class Base(NamedTuple):
    """The value from which another one was computed row by row and elementwise."""
    value: Value
    products: Tuple[Tuple[Value, Optional[str]], ...] = ()  # its multiples, each with the parameter that multiplied

    @property
    def latest(self) -> Value:
        return self.products[-1][0] if self.products else self.value

    @property
    def gamma(self) -> Optional[str]:
        return next((vector for _, vector in self.products if vector), None)

    def since(self, value: Value) -> Base:
        """Returns the base relative to `value`, one of the products, if statistics were computed from that product."""
        at = next((i for i, (product, _) in enumerate(self.products) if product is value), None)
        return self if at is None else Base(value, self.products[at + 1:])


def before_casts(value: Value) -> Value:
    """Returns the value before copies and casts, which keep the order of axes."""
    return next(v for v in value.views() if v.alias_of is None or v.op is None or v.op.name not in CASTS)


class NormFinder:
    """Finds the norms of one stream and of its branches, operator by operator."""

    def __init__(self, values: StreamValues):
        self._values = values
        self.found: List[Norm] = []
        self._norm_of: Dict[Value, Norm] = {}
        self._pointwise: Dict[Value, Base] = {}  # values computed elementwise from one value of the stream's shape
        self._statistics: Dict[Value, Tuple[Value, bool]] = {}  # statistics of such a value; whether they are lengths

    def at(self, value: Value) -> Optional[Norm]:
        """Returns the norm with this output, or None."""
        norm = self._norm_of.get(value.root)
        return norm if norm is not None and norm.output.root is value.root else None

    def take(self, op: Op, inputs: List[Value], outputs: List[Value]) -> None:
        if op.name in NORMS:
            self._take_norm(op, inputs[0], outputs[0])
        elif op.name in REDUCTION:
            base = self._base(inputs[0])
            if base is not None and outputs[0].tensor.numel() < base.value.tensor.numel():
                for value in outputs:
                    self._statistics[value] = base.latest, op.name in LENGTHS
        elif len(outputs) == 1:
            self._follow(op, inputs, outputs[0])

    def _base(self, value: Value) -> Optional[Base]:
        """Returns the value of the stream's shape from which this one was computed elementwise, or None."""
        found = None if self.at(value) else self._pointwise.get(value.root)
        if found is None and self._values.has_stream_shape(value):
            return Base(before_casts(value))
        return found

    def _follow(self, op: Op, inputs: List[Value], output: Value) -> None:
        """Follows an elementwise operator: one of statistics, or one between a value and its norm."""
        statistics = [self._statistics[v.root] for v in inputs if v.root in self._statistics]
        others = [v for v in inputs if v.root not in self._statistics]
        if not others:
            if len({id(base.root) for base, _ in statistics}) == 1:
                self._statistics[output] = statistics[0]
            return
        bases = [self._base(v) for v in others]
        for source, _ in statistics:
            bases = [b and b.since(source) for b in bases]
        base = bases[0]
        is_sum = op.name in ("add", "sub") and sum(map(self._values.has_stream_shape, op.inputs)) > 1
        is_rowwise = op.name in NORM_ARITHMETIC and not is_sum and base is not None \
            and self._values.has_stream_shape(output) \
            and all(b is not None and b.value.root is base.value.root for b in bases) \
            and all(b.root is base.value.root for b, _ in statistics)
        if not is_rowwise:
            return
        norm = next((self._norm_of[v.root] for v in others if v.root in self._norm_of), None)
        if norm is not None and not statistics and self._extend(norm, op, output):
            return
        vector = self._vector(op) if op.name in FACTORS else None
        if vector is None and any(v.tensor.numel() > 1 for v in op.inputs if not self._values.depends_on_stream(v)):
            return  # a mask or a bias is not part of a norm
        known = max(bases, key=lambda b: len(b.products))
        if op.name in FACTORS and len(others) == 1 and not statistics:
            known = known._replace(products=(*known.products, (output, vector)))
        self._pointwise[output] = known
        if statistics and op.name in FACTORS:
            norm = Norm(base.value, output, op.order, op.module, self._values.place.layer, gamma=known.gamma,
                        is_unit=statistics[0][1])
            self._keep_norm(norm)

    def _vector(self, op: Op) -> Optional[str]:
        """Returns the name of an operator's parameter with one number for each feature, or None."""
        d = self._values.x.tensor.shape[-1]
        return next((v.parameter for v in op.inputs if v.parameter and v.tensor.numel() == d), None)

    def _take_norm(self, op: Op, input: Value, output: Value) -> None:
        if not self._values.has_stream_shape(input) or input.shape[-1] != self._values.x.shape[-1]:
            return
        norm = Norm(input, output, op.order, op.module, self._values.place.layer)
        for key, name in ("gamma", "weight"), ("beta", "bias"):
            value = op.argument(name, op.argument(key))
            if isinstance(value, Value):
                setattr(norm, key, value.parameter)
        self._keep_norm(norm)

    def _extend(self, norm: Norm, op: Op, output: Value) -> bool:
        """Extends a norm if the operator applies γ or β, or a scaling in the norm's module. Returns whether it does."""
        others = [v for v in op.inputs if not self._values.depends_on_stream(v)]
        d = self._values.x.tensor.shape[-1]
        vector = self._vector(op)
        is_its_own = op.module == norm.module and op.module != self._values.place.module or vector is not None
        fits = op.name in SCALING and all(v.tensor.numel() in (1, d) for v in others)
        if not fits or not is_its_own or len(self._values.readers.get(norm.output.root, [])) > 1:
            return False
        if vector is not None:
            key = "beta" if op.name in ("add", "sub") else "gamma"
            if getattr(norm, key) is None:
                setattr(norm, key, vector)
        norm.output = output
        self._norm_of[output] = norm
        return True

    def add_call(self, call: Leave) -> None:
        """Adds a call of a module whose name says that it is a norm, unless its operators were recognized as a norm."""
        input, output = call.inputs[0], call.outputs[0]
        if any(norm.module == call.name and norm.order > input.order for norm in self.found):
            return
        names = {p: f"{call.name}.{p}" if call.name else p for p, _ in call.module.named_parameters(recurse=False)}
        gamma = next((names[p] for p in GAMMAS if p in names), None)
        beta = next((names[p] for p in BETAS if p in names), None)
        norm = Norm(input, output, output.order, call.name, self._values.place.layer, gamma, beta)
        if self._values.has_stream_shape(input) and self._values.has_stream_shape(output):
            self._keep_norm(norm)
        elif input.shape == output.shape:
            self._keep_in_branch(norm)

    def _keep_norm(self, norm: Norm) -> None:
        self.found.append(norm)
        self._norm_of[norm.output.root] = norm
        self._keep_in_branch(norm)

    def _keep_in_branch(self, norm: Norm) -> None:
        branches = self._values.branches_of(norm.input)
        if len(branches) == 1:
            branches[0].norms.append(norm)
