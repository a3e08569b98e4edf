"""Measures the shares of a sum's gradient that arrive at the stream and at the branch."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn

from ..._structure import tensors_in
from ..find.flow import Flow
from ..find.names import is_projection
from ..find.norm_names import is_norm
from ..find.operators import ELEMENTWISE, NORMS
from ..find.paths import is_made_of, leads_to_sum, makes_branch
from ..find.sublayers import Sublayer
from ..find.values import is_channels_first
from ..fit.batch import Numbers
from ..fit.sums import MOST_UNEXPLAINED, InnerProducts, inner_products
from ..fit.values import wide
from ..record.graph import Op, Value
from .gradients import ENOUGH, Gradients, Listeners
from .measured import Measured
from .profile import Site
from .rows import Rows


class InnerNorm:
    """A norm that one autograd.Function computes together with its sum, so that their gradients arrive as one."""

    def __init__(self, output: Value, total: Tensor, gamma: Optional[Tensor]) -> None:
        self.output, self._total, self._gamma = output, total, gamma
        # It is a LayerNorm if the rows of y/γ have a mean of 0, else an RMSNorm.
        rows = wide(output.recorded).reshape(-1, total.shape[-1])
        rows = rows if gamma is None else rows / gamma.masked_fill(gamma == 0, 1)
        self._centres = bool(rows.mean(-1).abs().max() < 1e-3)

    def through(self, of_sum: Tensor, of_norm: Tensor) -> Dict[str, Tensor]:
        """Returns the gradients of both outputs, each passed back through the norm."""
        back = {"norm of normed": vector_jacobian(self._normalize, self._total, of_norm),
                "norm of sum": vector_jacobian(self._normalize, self._total, of_sum)}
        return {key: gradient for key, gradient in back.items() if gradient is not None}

    def _normalize(self, s: Tensor) -> Tensor:
        s = s - s.mean(-1, keepdim=True) if self._centres else s
        y = s / s.square().mean(-1, keepdim=True).sqrt().clamp(min=1e-300)
        return y if self._gamma is None else self._gamma * y


class ShareFit:
    """Fits the gradients that arrive at a sum's branch and stream as multiples of the sum's own gradient."""

    def __init__(self, measured: Measured, rows: Rows, entry: Numbers, inner: Optional[InnerNorm], awaits_branch: bool,
                 has_branch_gradient: bool, readers: Optional[List[Callable[[Tensor], Optional[Tensor]]]]) -> None:
        """readers: one function for each other reader of the stream, which passes its gradient back to the stream; None
        if this cannot be computed, and then the stream's gradient is not fitted."""
        self._measured, self._rows, self._entry, self._inner = measured, rows, entry, inner
        self._awaits_branch, self._has_branch_gradient, self._readers = awaits_branch, has_branch_gradient, readers
        self._arrived: Dict[Any, Tensor] = {}  # the gradients that have arrived in this backward pass, by key

    def listen(self, key: Any, listeners: Optional[Listeners]) -> None:
        """key: "sum", "norm", "branch", "x", or the number of a reader."""
        if listeners is not None:
            listeners.append(functools.partial(self._take, key))

    def _take(self, key: Any, values: Tensor) -> None:
        arrived = self._arrived
        if key != "sum" and "sum" not in arrived:
            return  # a gradient before the sum's comes from elsewhere
        arrived[key] = wide(self._rows.like_stream(values.detach()))
        if key == "norm" and self._inner is not None:
            arrived.update(self._inner.through(arrived["sum"], arrived.pop("norm")))
        elif key == "sum" and self._has_branch_gradient:
            self._entry["grad_to_branch"] = 0.0  # the value if no gradient arrives
        elif key == "branch":
            self._fit("branch", {})
        elif key == "x" and self._readers is not None:
            back = [through(arrived[i]) for i, through in enumerate(self._readers) if i in arrived]
            if all(b is not None for b in back):
                self._fit("x", {"readers": torch.stack(back).sum(0)} if back else {})
        if "x" in arrived and ("branch" in arrived or not self._awaits_branch):
            arrived.clear()

    def _fit(self, name: str, others: Dict[str, Tensor]) -> None:
        arrived, total = self._arrived, self._arrived[name]
        parts = {"sum": arrived["sum"], **others}
        parts.update((key, arrived[key]) for key in ("norm of sum", "norm of normed") if key in arrived)
        read = functools.partial(self._read, self._entry, name, list(parts), total.dtype, total.numel())
        self._measured.fit(inner_products, [total, *parts.values()], read)
        self._measured.run_fits(ENOUGH)

    @staticmethod
    def _read(entry: Numbers, name: str, parts: List[str], dtype: torch.dtype, count: int, numbers: Numbers) -> None:
        """Stored until the end of the step, so it must not reference tensors."""
        entry.pop(f"grad_to_{name}", None)
        made_of = InnerProducts(numbers, parts, dtype, count).fit()
        if made_of.get("unexplained", 1) < MOST_UNEXPLAINED and "from_sum" in made_of:
            entry[f"grad_to_{name}"] = made_of["from_sum"]


class SumGradients:
    """Measures the gradients of the sums of one stream."""

    def __init__(self, measured: Measured, flow: Flow, rows: Rows, modules: Dict[str, nn.Module],
                 parameters: Dict[str, Tensor], gradients: Gradients) -> None:
        self._measured, self._flow, self._rows, self._modules = measured, flow, rows, modules
        self._parameters, self._gradients = parameters, gradients

    def grade_sum(self, site: Site, sub: Sublayer) -> None:
        """Fits the shares of a sum's gradient that arrive at its branch and at the stream. The stream's gradient also
        has terms from the modules that read it. A sum without a graph is not measured."""
        entry = self._measured.entries[site]
        self._measured.finally_do(functools.partial(self._gradients.count, entry))
        inner = self._inner_norm(sub)
        if inner is None and not sub.total.root.op.has_graph:
            self._measured.coverage.miss_graph(sub.module)
            return
        is_branch_within = sub.joined.is_within_function and sub.sum.branch.tensor.requires_grad
        if is_branch_within:
            self._measured.coverage.miss_graph(sub.module)
        total, x = self._gradients.watch(sub.total), self._gradients.watch(self._whole(sub.x))
        joined, readers = self._gradients.watch(sub.joined), self._readers(sub)
        has_branch_gradient = not is_branch_within and not sub.joined.has_lost_edge
        shares = ShareFit(self._measured, self._rows, entry, inner, joined is not None, has_branch_gradient,
                          None if readers is None else [through for _, through in readers])
        shares.listen("sum", total)
        if inner is not None:
            shares.listen("norm", self._gradients.watch(inner.output))
        shares.listen("branch", joined)
        for i, (output, _) in enumerate(readers or []):
            shares.listen(i, self._gradients.watch(output))
        shares.listen("x", x)

    def _inner_norm(self, sub: Sublayer) -> Optional[InnerNorm]:
        """Returns the norm of a sum if one autograd.Function computes both, with an output for each, else None."""
        if sub.total.root.op.has_graph or sub.total.edge is None:
            return None
        node = sub.total.edge[0]
        for norm in self._flow.norms.found:
            joint = self._output_of(node, norm.output, sub.total) if norm.input.root is sub.total.root else None
            if joint is not None:
                gamma = self._parameters.get(norm.gamma or "") if joint is norm.output else None
                return InnerNorm(joint, wide(self._rows.values(sub.total)), None if gamma is None else wide(gamma))
        return None

    def _output_of(self, node: Any, value: Value, total: Value, depth: int = 4) -> Optional[Value]:
        """Returns the output from which learned gains and biases computed the value, or None. It is not the sum."""
        if value.root is total.root:
            return None
        if value.edge is not None and value.edge[0] is node:
            return value
        op = value.root.op
        before = [v for v in op.inputs if self._flow.values.has_stream(v)] if op is not None and op.has_graph else []
        return self._output_of(node, before[0], total, depth - 1) if len(before) == 1 and depth > 0 else None

    def _whole(self, value: Value) -> Value:
        """Returns the value that this one is a view of, if its features precede its tokens. Other views may exist."""
        root = value.root
        return root if is_channels_first(root.tensor, self._rows.shape) else value

    def _readers(self, sub: Sublayer) -> Optional[List[Tuple[Value, Callable[[Tensor], Optional[Tensor]]]]]:
        """Returns the readers of the stream other than the sum, as (output, function that passes its gradient back).
        Returns None if the gradient through a reader cannot be computed."""
        found: Dict[str, Tuple[Value, Callable]] = {}
        values, total, stream = self._flow.values, sub.sum.total, sub.sum.stream
        for op in values.readers.get(sub.x.root, []):
            output = op.outputs[0]
            if op is total.root.op or leads_to_sum(op, total, values) and not makes_branch(op, sub.x, values):
                continue
            if output.is_within_function and sub.sum.branch.tensor.requires_grad:
                self._measured.coverage.miss_graph(sub.module)
                return None
            norm = next((n for n in self._flow.norms.found if n.input.root is sub.x.root
                         and n.order >= op.order and n.module == op.module), None)
            module = self._modules.get(op.module)
            if norm is not None and module is not None and is_norm(op.module, module):
                found[f"norm {norm.order}"] = norm.output, functools.partial(self._through, module, sub.x)
            elif norm is not None and op.name in NORMS:
                found[f"norm {norm.order}"] = norm.output, functools.partial(self._through_op, op, sub.x)
            elif module is not None and is_projection(module) and not list(module.children()):
                output = next((n.output for n in self._flow.linears if n.op is op), output)
                found[f"{op.module} {op.order}"] = output, functools.partial(self._through, module, sub.x)
            elif op.name in ELEMENTWISE and output.shape == sub.x.shape and not (
                    stream is not None and is_made_of(stream, output, values)):  # not a bound of x that f is added to
                found[f"{op.name} {op.order}"] = output, functools.partial(self._through_elementwise, op, sub.x)
            else:
                return None
        return list(found.values())

    def _through(self, module: nn.Module, x: Value, gradient: Tensor) -> Optional[Tensor]:
        return vector_jacobian(module.forward, self._rows.values(x), gradient)

    def _through_op(self, op: Op, x: Value, gradient: Tensor) -> Optional[Tensor]:
        others = [a.recorded if isinstance(a, Value) else a for a in op.arguments[1:]]
        rows = self._rows.values(x)
        return vector_jacobian(lambda rows: next(tensors_in(op.function(rows, *others))), rows, gradient)

    def _through_elementwise(self, op: Op, x: Value, gradient: Tensor) -> Optional[Tensor]:
        def rows_of(argument: Any) -> Any:
            if not isinstance(argument, Value):
                return argument
            is_row = argument.shape[:-1] == x.shape[:-1]
            return self._rows.like_stream(argument.recorded) if is_row else argument.recorded

        is_x = [isinstance(argument, Value) and argument.root is x.root for argument in op.arguments]
        arguments = [rows_of(argument) for argument in op.arguments]
        return vector_jacobian(lambda rows: next(tensors_in(op.function(
            *(rows if is_rows else a for is_rows, a in zip(is_x, arguments))))), self._rows.values(x), gradient)


def vector_jacobian(function: Callable[[Tensor], Tensor], rows: Tensor, gradient: Tensor) -> Optional[Tensor]:
    """Returns the gradient of a function's input for its output's gradient, or None if it cannot be computed."""
    try:
        with torch.enable_grad():
            x = rows.clone().requires_grad_()
            y = function(x)
            return wide(torch.autograd.grad(y, x, gradient.to(y.device, y.dtype))[0])
    except Exception:  # a module may need more than x; an error must not end the backward pass
        return None
