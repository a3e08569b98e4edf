"""Finds norms in a graph of torch.fx: calls of PyTorch's norms, and norms written out in sums, means and roots."""

from __future__ import annotations

from typing import Any, Iterator, NamedTuple

import torch
from torch import Tensor
from torch.fx import Node

from ..norm_options import NormFields
from .formula import value_type

_MODULES = "_operator", "torch", "torch.nn.functional", "torch._C._nn"
_CASTS = "to", "float", "double", "half", "bfloat16", "type", "type_as", "contiguous"
_QUOTIENTS = "truediv", "div", "true_divide"
_LAYER_NORM = "input", "normalized_shape", "weight", "bias", "eps"
_RMS_NORM = "input", "normalized_shape", "weight", "eps"


class WrittenNorm(NamedTuple):
    """A norm in the graph.

    nodes         all nodes that compute it from x, in the order of the graph; the last one is its result
    x             what is normalized
    gamma, beta   its factors, before conversions to a wider type, or None
    fields        its options
    why           None, or why the kernels compute something else
    """

    nodes: list[Node]
    x: Node
    gamma: Node | None
    beta: Node | None
    fields: NormFields
    why: str | None

    @property
    def y(self) -> Node:
        return self.nodes[-1]


class _Core(NamedTuple):
    """(u − mean)/deviation, perhaps with γ and β."""

    nodes: list[Node]
    u: Node
    gamma: Node | None
    beta: Node | None
    fields: NormFields
    why: str | None


class _Deviation(NamedTuple):
    """√(variance + ε) or √variance + ε of u, along an axis."""

    nodes: list[Node]
    u: Node
    kind: str
    eps: float
    eps_at: str
    variance: str
    axis: Any


def value(node: Any) -> Tensor | None:
    """Returns the fake tensor of a node. Values inside vmap and other transforms are other tensors: None."""
    found = node.meta.get("example_value") if isinstance(node, Node) else None
    return found if isinstance(found, torch._subclasses.FakeTensor) else None


def shape(node: Any) -> list[str] | None:
    """Returns the lengths of a tensor's axes as text: to compare symbolic lengths would add guards."""
    tensor = value(node)
    return None if tensor is None else [str(n) for n in tensor.shape]


def name_of(node: Any) -> str:
    """Returns the name of a method or of PyTorch's function, the same for x + f, torch.add(x, f) and x.add(f)."""
    if not isinstance(node, Node):
        return ""
    if node.op == "call_method":
        return str(node.target)
    is_known = node.op == "call_function" and getattr(node.target, "__module__", None) in _MODULES
    return str(getattr(node.target, "__name__", "")) if is_known else ""


def find(node: Node) -> WrittenNorm | None:
    """Returns the norm whose division by the deviation is this node."""
    core = _called(node) or _divided(node)
    if core is None or value(core.u) is None or value(node) is None:
        return None
    nodes, gamma, beta, form = _with_factors(core)
    fields = (*core.fields[:4], form, 1.0)
    for length in range(len(nodes), len(core.nodes) - 1, -1):
        for x in reversed(list(_before_casts(core.u))):
            if _keeps_type(nodes[len(core.nodes) - 1:length], x):
                kept = nodes[:length]
                g, b = (p[1] if p is not None and p[0] < length else None for p in (gamma, beta))
                why = core.why or _difference(x, g, b, kept[-1])
                return WrittenNorm(kept, x, g, b, fields if g is not None else (*core.fields[:4], "plain", 1.0), why)
    return WrittenNorm(core.nodes, core.u, core.gamma, core.beta, core.fields, "its result has another type than x")


def _keeps_type(nodes: list[Node], x: Node) -> bool:
    """Whether the last node has x's type, and none of them rounds to a narrower one."""
    types = [_type(n) for n in nodes]
    return types[-1] == _type(x) and all(torch.promote_types(t, types[-1]) == t for t in types)


def _difference(x: Node, gamma: Node | None, beta: Node | None, y: Node) -> str | None:
    """Returns why the operator's result differs from y, None if it does not."""
    lengths = shape(x)
    result = value(y)
    if lengths is None or result is None or shape(y) != lengths:
        return "its result has another shape than x"
    if any(p is not None and shape(p) != lengths[-1:] for p in (gamma, beta)):
        return "its weight or bias is no vector of features"
    return None if result.is_contiguous() else "its result is not contiguous"


def _type(node: Any) -> torch.dtype:
    tensor = value(node)
    return torch.bool if tensor is None else tensor.dtype


def _argument(node: Node, place: int, *names: str) -> Any:
    if len(node.args) > place:
        return node.args[place]
    return next((node.kwargs[n] for n in names if n in node.kwargs), None)


def _is_cast(node: Any) -> bool:
    """Whether a node has the same values as its input, perhaps in another type."""
    name = name_of(node)
    if name == "dropout":
        return _argument(node, 2, "training") is False or _argument(node, 1, "p") == 0
    return name in _CASTS and shape(node) is not None and shape(node) == shape(node.args[0])


def _before_casts(node: Node) -> Iterator[Node]:
    """Yields a node and those of which it is a conversion to the same or a wider type."""
    yield node
    while _is_cast(node) and torch.promote_types(_type(node.args[0]), _type(node)) == _type(node):
        node = node.args[0]
        yield node


def _origin(node: Node) -> Node:
    return list(_before_casts(node))[-1]


def _called(node: Node) -> _Core | None:
    """Returns a call of PyTorch's layer_norm or rms_norm."""
    name = name_of(node)
    if name not in ("layer_norm", "rms_norm") or node.op != "call_function":
        return None
    names = _LAYER_NORM if name == "layer_norm" else _RMS_NORM
    given = {**dict(zip(names, node.args)), **node.kwargs}
    x, eps = given["input"], given.get("eps", 1e-5 if name == "layer_norm" else None)
    lengths = given["normalized_shape"]
    why = None if isinstance(lengths, int) or len(lengths) == 1 else "it normalizes several axes together"
    eps = _number(eps) if eps is not None else None
    if eps is None and _type(x) in (torch.float32, torch.float64):
        eps = torch.finfo(_type(x)).eps
    elif eps is None:
        why, eps = why or "it has no ε, and versions of PyTorch differ in theirs", 0.0
    gamma, beta = (None if p is None else _origin(p) for p in (given.get("weight"), given.get("bias")))
    kind = name.split("_")[0]
    return _Core([node], x, gamma, beta, (kind, eps, "variance", "population", "plain", 1.0), why)


def _divided(node: Node) -> _Core | None:
    """Returns u/deviation, also written as a product with the reciprocal."""
    pairs: list[tuple[Any, Any]] = []
    if name_of(node) == "mul" and len(node.args) == 2:
        pairs = [(node.args[0], node.args[1]), (node.args[1], node.args[0])]
    elif name_of(node) in _QUOTIENTS and len(node.args) == 2 and not node.kwargs:
        pairs = [(node.args[0], node.args[1])]
    for u, divisor in pairs:
        found = _deviation(divisor, name_of(node) == "mul") if isinstance(u, Node) else None
        if found is None:
            continue
        nodes, x, kind = [*found.nodes, node], u, found.kind
        centered = _centered(u)
        if kind == "layer":  # the variance subtracts a mean itself, so u must do so too
            if centered is None or _origin(centered[1]) is not _origin(found.u):
                return None
        elif _origin(u) is not _origin(found.u):
            return None
        if centered is not None:
            nodes, x, kind = [*centered[0], *nodes], centered[1], "layer"
            if not _is_last(found.axis, u) or not _is_last(centered[2], u):
                return None
        why = None if _is_last(found.axis, x) else "it normalizes another axis than the last"
        if value(x) is not None and _type(found.nodes[0]) != value_type(value(x)):
            why = why or f"it is computed in {_type(found.nodes[0])}".replace("torch.", "")
        return _Core(nodes, x, None, None, (kind, found.eps, found.eps_at, found.variance, "plain", 1.0), why)
    return None


def _is_last(axis: Any, x: Any) -> bool:
    axis = axis[0] if isinstance(axis, (tuple, list)) and len(axis) == 1 else axis
    tensor = value(x)
    return isinstance(axis, int) and tensor is not None and axis in (-1, tensor.dim() - 1)


def _centered(node: Any) -> tuple[list[Node], Node, Any] | None:
    """Returns the nodes of x − mean(x), x and the axis."""
    node = _origin(node)
    if name_of(node) != "sub" or len(node.args) != 2 or node.kwargs:
        return None
    x, mean = node.args
    axis = _reduced(mean, "mean")
    if axis is None or _origin(mean.args[0]) is not _origin(x):
        return None
    return [mean, node], x, axis


def _reduced(node: Any, name: str) -> Any:
    """Returns the axis of a mean, variance or standard deviation that keeps it; None for another node."""
    if name_of(node) != name or "dtype" in node.kwargs or not isinstance(node.args[0], Node):
        return None
    keeps = node.kwargs.get("keepdim", node.args[-1] if len(node.args) > 2 else False)
    return _argument(node, 1, "dim", "axis") if keeps is True else None


def _deviation(node: Any, is_reciprocal: bool) -> _Deviation | None:
    """Returns the deviation that a node computes, or the deviation whose reciprocal it computes."""
    name = name_of(node)
    nodes = [node]
    if is_reciprocal and name in _QUOTIENTS and node.args[0] in (1, 1.0):
        return _deviation(node.args[1], False)
    if is_reciprocal and (name == "rsqrt" or name == "pow" and node.args[1] == -0.5) or \
            not is_reciprocal and (name == "sqrt" or name == "pow" and node.args[1] == 0.5):
        inner, eps = _plus_number(node.args[0])
        found = _variance(inner)
        at = "variance"
        nodes = [node.args[0], node]
    elif not is_reciprocal:
        inner, eps = _plus_number(node)
        found = _variance(inner, "std")
        if found is None and name_of(inner) == "sqrt":
            nodes = [inner, node]
            found = _variance(inner.args[0])
        at = "deviation"
    else:
        return None
    if found is None or eps is None:
        return None
    return found._replace(nodes=[*found.nodes, *nodes], eps=eps, eps_at=at)


def _plus_number(node: Any) -> tuple[Any, float | None]:
    if name_of(node) == "add" and len(node.args) == 2 and not node.kwargs:
        for a, b in (node.args, node.args[::-1]):
            if value(a) is not None and _number(b) is not None:
                return a, _number(b)
    return None, None


def _number(item: Any) -> float | None:
    """Returns a number of the graph, None if the item is something else. With dynamic=True a module's ε is symbolic,
    and its conversion adds the guard that it keeps its value."""
    number = item.meta.get("example_value") if isinstance(item, Node) else item
    is_number = isinstance(number, (int, float, getattr(torch, "SymFloat", float))) and not isinstance(number, bool)
    return float(number) if is_number else None


def _variance(node: Any, var: str = "var") -> _Deviation | None:
    """Returns mean(u²), or PyTorch's var or std of u."""
    axis = _reduced(node, var)
    if axis is not None:
        divisor = node.kwargs.get("correction", node.kwargs.get("unbiased", node.args[2] if len(node.args) > 3 else True))
        if divisor in (0, 1, True, False):
            kind = "unbiased" if divisor else "population"
            return _Deviation([node], node.args[0], "layer", 0.0, "", kind, axis)
    axis = _reduced(node, "mean") if var == "var" else None
    square = node.args[0] if axis is not None else None
    name = name_of(square)
    if name == "square" or name == "pow" and square.args[1] in (2, 2.0) or \
            name == "mul" and len(square.args) == 2 and square.args[0] is square.args[1]:
        return _Deviation([square, node], square.args[0], "rms", 0.0, "", "population", axis)
    return None


def _with_factors(core: _Core) -> tuple[list[Node], Any, Any, str]:
    """Returns the nodes with the conversions, the factor and the addend that follow, γ and β with their places among
    the nodes, and γ's form."""
    nodes, form = list(core.nodes), "plain"
    gamma = None if core.gamma is None else (0, core.gamma)
    beta = None if core.beta is None else (0, core.beta)
    is_call = gamma is not None or beta is not None
    width = (shape(core.u) or [""])[-1:]
    while len(nodes[-1].users) == 1:
        last, user = nodes[-1], next(iter(nodes[-1].users))
        others = [a for a in user.args if a is not last]
        is_vector = len(user.args) == 2 and len(others) == 1 and not user.kwargs and shape(others[0]) == width
        if is_vector and not is_call and name_of(user) == "mul" and gamma is beta is None:
            factor = _origin(others[0])
            plus = [a for a in factor.args if a not in (1, 1.0)] if name_of(factor) == "add" else []
            form = "one_plus" if len(plus) == 1 and len(factor.args) == 2 and shape(plus[0]) == width else "plain"
            gamma = len(nodes), _origin(plus[0]) if form == "one_plus" else factor
        elif is_vector and not is_call and name_of(user) == "add" and beta is None:
            beta = len(nodes), _origin(others[0])
        elif not (_is_cast(user) and user.args[0] is last) or name_of(user) == "dropout":
            break
        nodes.append(user)
    return nodes, gamma, beta, form
