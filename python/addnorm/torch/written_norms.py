"""Finds norms in a graph of torch.fx: calls of PyTorch's norms, and norms written out in sums, means and roots."""

from __future__ import annotations

from typing import Any, Iterator, NamedTuple

import torch
from torch import Tensor
from torch.fx import Node

from .._structure import dtype_name
from ..norm_options import NormFields
from .formula import DEFAULT_EPSILONS, value_type

_MODULES = "_operator", "torch", "torch.nn.functional", "torch._C._nn"
_CASTS = "to", "float", "double", "half", "bfloat16", "type", "type_as", "contiguous"
_QUOTIENTS = "truediv", "div", "true_divide"
_LAYER_NORM = "input", "normalized_shape", "weight", "bias", "eps"
_RMS_NORM = "input", "normalized_shape", "weight", "eps"


class WrittenNorm(NamedTuple):
    """A norm in the graph.

    y             its result
    x             what is normalized
    gamma, beta   its factors, before conversions to a wider type, or None
    nodes         all nodes that compute y from x, γ and β, with y
    fields        its options
    why           None, or why the kernels compute something else
    """

    y: Node
    x: Node
    gamma: Node | None
    beta: Node | None
    nodes: list[Node]
    fields: NormFields
    why: str | None


class _Core(NamedTuple):
    """The node of (u − mean)/deviation, perhaps with γ and β."""

    node: Node
    u: Node
    gamma: Node | None
    beta: Node | None
    fields: NormFields
    why: str | None


class _Deviation(NamedTuple):
    """√(variance + ε) or √variance + ε of u, along an axis. The type is that of u², var or std."""

    dtype: torch.dtype
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
    is_known = node.op == "call_function" and node.args and getattr(node.target, "__module__", None) in _MODULES
    return str(getattr(node.target, "__name__", "")) if is_known else ""


def find(node: Node) -> WrittenNorm | None:
    """Returns the norm whose division by the deviation is this node."""
    core = _called(node) or _divided(node)
    if core is None or value(core.u) is None or value(node) is None:
        return None
    chain, gamma, beta, form = _with_factors(core)
    origin = _origin(core.u)
    for length in range(len(chain), 0, -1):
        y = chain[length - 1]
        g, b = (p[1] if p is not None and p[0] < length else None for p in (gamma, beta))
        for x in reversed(list(_before_casts(core.u))):
            nodes = _nodes_between(y, {x, g, b}, origin) if _keeps_type(chain[:length], x) else None
            if nodes is not None:
                fields = (*core.fields[:4], "plain" if g is None else form, 1.0)
                return WrittenNorm(y, x, g, b, nodes, fields, core.why or _difference(x, g, b, y))
    return WrittenNorm(core.node, core.u, None, None, [core.node], core.fields,
                       core.why or "its result has another type than x")


def _nodes_between(y: Node, ends: set[Any], origin: Node) -> list[Node] | None:
    """Returns the nodes that compute y from the ends, with y. None if some of them begin with the origin instead."""
    nodes: dict[Node, None] = {}
    waiting = [y]
    while waiting:
        node = waiting.pop()
        if node is origin and node not in ends:
            return None
        if node not in ends and node not in nodes and value(node) is not None:
            nodes[node] = None
            waiting += [node.args[0]] if _is_cast(node) else node.all_input_nodes
    return list(nodes)


def _keeps_type(nodes: list[Node], x: Node) -> bool:
    """Whether the last node has x's type, and no node rounds to a narrower one."""
    types = [_type(n) for n in nodes]
    return types[-1] == _type(x) and all(torch.promote_types(t, types[-1]) == t for t in types)


def _difference(x: Node, gamma: Node | None, beta: Node | None, y: Node) -> str | None:
    """Returns why the operator's result differs from y, None if it does not."""
    lengths = shape(x)
    result = value(y)
    if lengths is None or result is None or shape(y) != lengths or result.device != x.meta["example_value"].device:
        return "its result has another shape or device than x"
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
    is_one = isinstance(lengths, int) or isinstance(lengths, (tuple, list)) and len(lengths) == 1
    why = None if is_one else "it normalizes several axes together"
    eps = _number(eps) if eps is not None else None
    eps = DEFAULT_EPSILONS.get(_type(x), 0.0) if eps is None else eps
    gamma, beta = (None if p is None else _origin(p) for p in (given.get("weight"), given.get("bias")))
    kind = name.split("_")[0]
    return _Core(node, x, gamma, beta, (kind, eps, "variance", "population", "plain", 1.0), why)


def _divided(node: Node) -> _Core | None:
    """Returns u/deviation, also written as a product with the reciprocal."""
    name, pairs = name_of(node), []
    if name == "mul" and len(node.args) == 2 and not node.kwargs:
        pairs = [(node.args[0], node.args[1]), (node.args[1], node.args[0])]
    elif name in _QUOTIENTS and len(node.args) == 2 and not node.kwargs:
        pairs = [(node.args[0], node.args[1])]
    for u, divisor in pairs:
        found = _deviation(divisor, name == "mul") if isinstance(u, Node) else None
        if found is None:
            continue
        mean = _subtracted_mean(u)
        x = u if mean is None else _origin(u).args[0]
        if _origin(x if found.kind == "layer" else u) is not _origin(found.u) or found.kind == "layer" and mean is None:
            return None  # a deviation of something else
        kind = "rms" if mean is None else "layer"
        types = {found.dtype} if mean is None else {found.dtype, _type(mean), _type(_origin(u))}
        why = None if _is_last(found.axis, x) and (mean is None or _is_last(_reduced(mean, "mean"), x)) else \
            "it normalizes another axis than the last"
        if value(x) is not None and types != {value_type(value(x))}:
            why = why or "it is computed in " + " and ".join(sorted(dtype_name(t) for t in types))
        return _Core(node, x, None, None, (kind, found.eps, found.eps_at, found.variance, "plain", 1.0), why)
    return None


def _is_last(axis: Any, x: Any) -> bool:
    axis = axis[0] if isinstance(axis, (tuple, list)) and len(axis) == 1 else axis
    tensor = value(x)
    return isinstance(axis, int) and tensor is not None and axis in (-1, tensor.dim() - 1)


def _subtracted_mean(node: Any) -> Node | None:
    """Returns the mean of x that a node subtracts from x."""
    node = _origin(node)
    if name_of(node) != "sub" or len(node.args) != 2 or node.kwargs:
        return None
    x, mean = node.args
    is_mean = _reduced(mean, "mean") is not None and _origin(mean.args[0]) is _origin(x)
    return mean if is_mean else None


def _reduced(node: Any, name: str) -> Any:
    """Returns the axis of a mean, variance or standard deviation that keeps it; None for another node."""
    if name_of(node) != name or node.kwargs.get("dtype") is not None or not isinstance(node.args[0], Node):
        return None
    keeps = _argument(node, 2 if name == "mean" else 3, "keepdim")
    return _argument(node, 1, "dim", "axis") if keeps is True else None


def _deviation(node: Any, is_reciprocal: bool) -> _Deviation | None:
    """Returns the deviation that a node computes, or the deviation whose reciprocal it computes."""
    name = name_of(node)
    power = _argument(node, 1, "exponent") if name == "pow" else None
    if is_reciprocal and name in _QUOTIENTS and node.args[0] in (1, 1.0):
        return _deviation(node.args[1], False)
    if name == ("rsqrt" if is_reciprocal else "sqrt") or power == (-0.5 if is_reciprocal else 0.5):
        at, (inner, eps) = "variance", _plus_number(node.args[0])
        found = _variance(inner, "var")
    elif not is_reciprocal:
        at, (inner, eps) = "deviation", _plus_number(node)
        found = _variance(inner.args[0], "var") if name_of(inner) == "sqrt" else _variance(inner, "std")
    else:
        return None
    return None if found is None or eps is None else found._replace(eps=eps, eps_at=at)


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


def _variance(node: Any, name: str) -> _Deviation | None:
    """Returns the function of this name, var or std, of u. Also returns mean(u²) for var."""
    axis = _reduced(node, name)
    if axis is not None:
        divisor = node.kwargs.get("correction", _argument(node, 2, "unbiased"))
        kind = {None: "unbiased", 1: "unbiased", 0: "population"}.get(divisor)
        return None if kind is None else _Deviation(_type(node), node.args[0], "layer", 0.0, "", kind, axis)
    axis = _reduced(node, "mean") if name == "var" else None
    square = node.args[0] if axis is not None else None
    operation = name_of(square)
    if operation == "square" or operation == "pow" and _argument(square, 1, "exponent") in (2, 2.0) or \
            operation == "mul" and len(square.args) == 2 and square.args[0] is square.args[1]:
        return _Deviation(_type(square), square.args[0], "rms", 0.0, "", "population", axis)
    return None


def _with_factors(core: _Core) -> tuple[list[Node], Any, Any, str]:
    """Returns the nodes with the conversions, the factor and the addend that follow, γ and β with their places among
    the nodes, and γ's form."""
    nodes, form = [core.node], "plain"
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
