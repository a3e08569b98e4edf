"""Fusion: a backend of torch.compile that computes residual sums and norms with this library's operators."""

from __future__ import annotations

import inspect
import math
import re
from operator import getitem
from typing import Any, Callable, Tuple, Union

import torch
from torch import fx

from .. import _core
from .._structure import dtype_name
from . import operators
from .formula import value_type
from .written_norms import WrittenNorm, find, name_of, shape, value

Backend = Callable[..., Any]
Site = Tuple[str, Union[str, None]]  # the module and the reason
_IN_PLACE = {"iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul", "iand", "ior", "ixor",
             "ilshift", "irshift"}  # of the module operator
_HAS_NORMS_IN_GRAPHS = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 5)


class Fusion:
    """A backend of torch.compile. It replaces x + f with its LayerNorm or RMSNorm by `addnorm::add_norm`, and other
    LayerNorms and RMSNorms by `addnorm::norm`, with their gradients, and gives the graph to another backend.

        fusion = Fusion()
        compiled = torch.compile(model, backend=fusion)
        compiled(x)
        print(fusion)   # 5 of 5 norms and 4 of 4 sums fused

    Finds torch.nn.functional's and torch.nn's norms over the last axis, and norms that are written out in powers,
    means and roots. A sum counts if a norm reads it. The results differ from the model's by the rounding of their type.

    norms, sums   for each norm and sum, in compiled order: its module and None, or the reason why it is not fused.
                  Every graph counts, so a model that is compiled again, as for another shape, counts twice.

    backend       compiles the changed graph: a name of torch.compile's backends or a function

    Raises addnorm.Error before PyTorch 2.5, whose graphs have modules in place of norms.
    """

    def __init__(self, backend: str | Backend = "inductor") -> None:
        if not _HAS_NORMS_IN_GRAPHS:
            raise _core.Error(f"PyTorch is {torch.__version__}, must be 2.5 or newer")
        self._backend = backend
        self.norms: list[Site] = []
        self.sums: list[Site] = []

    def __call__(self, graph: fx.GraphModule, inputs: list[Any], **keywords: Any) -> Any:
        rewriters = [_Rewriter(module) for module in graph.modules()  # checkpoints have graphs inside the graph
                     if isinstance(module, fx.GraphModule)]
        for rewriter in rewriters:
            rewriter.run()
        if self._backend == "inductor":
            of_mode = torch._inductor.list_mode_options(keywords["mode"]) if keywords.get("mode") else {}
            keywords = {"config_patches": {**of_mode, **(keywords.get("options") or {})}}
        compiler = torch._dynamo.lookup_backend(self._backend) if isinstance(self._backend, str) else self._backend
        compiled = compiler(graph, inputs, **keywords)
        for rewriter in rewriters:  # not before, because a compiler may raise an error to get another graph
            self.norms += rewriter.norms.values()
            self.sums += rewriter.sums.values()
        return compiled

    def __str__(self) -> str:
        (norms, sums) = ([why for _, why in sites] for sites in (self.norms, self.sums))
        lines = [f"{norms.count(None)} of {len(norms)} norms and {sums.count(None)} of {len(sums)} sums fused"]
        for what, sites in (("norm", self.norms), ("sum", self.sums)):
            lines += [f"  {what} in {name}: {why}" for name, why in sites if why is not None]
        return "\n".join(lines)


class _Rewriter:
    """Rewrites one graph."""

    def __init__(self, module: fx.GraphModule) -> None:
        self.module = module
        self.norms: dict[fx.Node, Site] = {}
        self.sums: dict[fx.Node, Site] = {}
        self._places = {node: i for i, node in enumerate(module.graph.nodes)}
        self._modes = _modes(module.graph)
        self._mutations = [(place, storage) for node, place in self._places.items() for storage in _mutated(node)]

    def run(self) -> None:
        for node in list(self._places):
            norm = None if node._erased else find(node)
            if norm is not None:
                self._fuse(norm)
        if any(why is None for _, why in self.norms.values()):
            self.module.recompile()

    def _fuse(self, norm: WrittenNorm) -> None:
        why = norm.why or self._obstacle(norm)
        self.norms[norm.y] = _name(norm.y), why
        residual = None
        if _is_sum(norm.x):
            why_not_sum = "its norm is not fused" if why else self._obstacle_of_sum(norm)
            self.sums[norm.x] = _name(norm.x), why_not_sum
            residual = norm.x if why_not_sum is None else None
        if why is None:
            self._insert(norm, residual)

    def _obstacle(self, norm: WrittenNorm) -> str | None:
        """Returns why the operator cannot replace the norm, None if it can."""
        places = [self._places[node] for node in norm.nodes]
        if not operators.take(*map(value, (norm.x, norm.gamma, norm.beta, norm.y))):
            return f"there are no kernels for {_description(norm.x)}"
        if len({self._modes[node] for node in norm.nodes}) > 1:
            return "it begins and ends in different modes, such as torch.no_grad"
        inside = {_storage(node) for node in norm.nodes if node is not norm.y}
        if self._is_mutated({_storage(norm.x)}, self._places[norm.x]) or \
                self._is_mutated(_storages(norm.gamma, norm.beta), min(places)) or \
                self._is_mutated(inside, min(places), max(places)):
            return "its input or weight is changed in place"
        return None

    def _obstacle_of_sum(self, norm: WrittenNorm) -> str | None:
        """Returns why the operator cannot replace the sum together with its norm, None if it can."""
        place = self._places[norm.x]
        x, f = norm.x.args
        if name_of(norm.x) != "add":
            return "it is computed in place"
        if shape(x) != shape(norm.x) or shape(f) != shape(norm.x):
            return "it broadcasts"
        if norm.x.kwargs:
            return "it has a factor or a result that is given"
        if not operators.take(value(x), value(f)):
            return f"there are no kernels for {_description(x)} and {_description(f)}"
        if self._modes[norm.x] != self._modes[norm.y]:
            return "its norm is in another mode, such as torch.no_grad"
        if any(p is not None and self._places[p] > place for p in (norm.gamma, norm.beta)):
            return "the norm's weight is computed after it"
        if self._is_mutated(_storages(norm.gamma, norm.beta), place):
            return "the norm's weight is changed in place"
        return None

    def _is_mutated(self, storages: set[Any], after: int, before: float = math.inf) -> bool:
        return any(after < place < before and (storage is None or storage in storages)
                   for place, storage in self._mutations)

    def _insert(self, norm: WrittenNorm, residual: fx.Node | None) -> None:
        """Inserts add_norm in place of the residual sum, or norm in place of the norm's result."""
        graph, place = self.module.graph, norm.y if residual is None else residual
        tensor = value(norm.x)
        assert tensor is not None
        with graph.inserting_before(place):
            factors = [self._converted(p, value_type(tensor)) for p in (norm.gamma, norm.beta)]
            if residual is None:
                operator, inputs = torch.ops.addnorm.norm.default, [norm.x]
            else:
                operator = torch.ops.addnorm.add_norm.default
                inputs = [self._converted(a, tensor.dtype) for a in residual.args]
            both = graph.call_function(operator, (*inputs, *factors, *norm.fields))
            both.meta = {k: v for k, v in norm.y.meta.items() if k != "example_value"}
            results = {old: graph.call_function(getitem, (both, i)) for i, old in enumerate((norm.y, residual)) if old}
        for old, new in results.items():
            new.meta = dict(old.meta)
            self._places[new], self._modes[new] = self._places[place], self._modes[place]
            old.replace_all_uses_with(new)
        for node in sorted({*norm.nodes, *results}, key=self._places.__getitem__, reverse=True):
            if not node.users:
                graph.erase_node(node)

    def _converted(self, node: Any, dtype: torch.dtype) -> Any:
        tensor = value(node)
        if tensor is None or tensor.dtype == dtype:
            return node
        return self.module.graph.call_method("to", (node, dtype))


def _is_sum(node: fx.Node) -> bool:
    return name_of(node) in ("add", "add_", "iadd") and len(node.args) == 2 and None not in map(value, node.args)


def _name(node: fx.Node) -> str:
    """Returns the path of the module whose forward has the node, such as layers.0.norm."""
    stack = list(node.meta.get("nn_module_stack", {}).values())
    path = re.sub(r"\[\W*(\w+)\W*\]", r".\1", stack[-1][0]) if stack else ""
    return re.sub(r"^(L\.)?self\.?|^L\.fn\.?|_modules\.|_modules$", "", path) or "the model"


def _description(node: Any) -> str:
    tensor = value(node)
    return "this value" if tensor is None else f"{dtype_name(tensor)} on {tensor.device.type}"


def _storage(node: Any) -> Any:
    """Returns the identity of a tensor's memory, which its views share."""
    tensor = value(node)
    return None if tensor is None else tensor.untyped_storage()._cdata


def _storages(*nodes: Any) -> set[Any]:
    return {_storage(node) for node in nodes if node is not None}


def _modes(graph: fx.Graph) -> dict[fx.Node, Any]:
    """Returns the modes in which each node runs: whether it has gradients, and the contexts of autocast and others."""
    modes, gradients, contexts = {}, True, ()  # type: dict[fx.Node, Any], Any, tuple[Any, ...]
    for node in graph.nodes:
        name = getattr(node.target, "__name__", "") if node.op == "call_function" else ""
        if name == "_set_grad_enabled":
            gradients = node.args[0]
        elif re.match("_?enter_|.*_increment_nesting", name):
            contexts = *contexts, node
        elif re.match("_?exit_|.*_decrement_nesting", name):
            contexts = contexts[:-1]
        modes[node] = gradients, contexts
    return modes


def _mutated(node: fx.Node) -> list[Any]:
    """Returns the memory that a node changes. None stands for any memory."""
    target, first = node.target, [_storage(node.args[0])] if node.args else []
    everything = list(map(_storage, node.all_input_nodes))
    if node.op == "call_method":
        return first if str(target).endswith("_") and not str(target).endswith("__") else []
    if node.op == "call_module":
        return [None]
    if node.op != "call_function":
        return []
    name = str(getattr(target, "__name__", target))
    if getattr(target, "__module__", "") == "_operator":
        return first if name == "setitem" or name in _IN_PLACE else []
    if node.kwargs.get("out") is not None:
        return everything
    if isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return everything if _has_mutable_schema(target) else []
    if isinstance(target, torch._ops.HigherOrderOperator):
        return everything if _may_mutate(node) else []
    if name.endswith("_") and not name.endswith("__"):
        return everything
    return first if _is_in_place(target, node) else []


def _has_mutable_schema(target: Any) -> bool:
    overloads = [target] if isinstance(target, torch._ops.OpOverload) else \
        [getattr(target, name) for name in target.overloads()]
    return any(overload._schema.is_mutable for overload in overloads)


def _may_mutate(node: fx.Node) -> bool:
    """Whether an operator that runs graphs may change its inputs: unless its graphs are known and do not."""
    module = node.graph.owning_module
    inner = [getattr(module, str(n.target), None) for n in node.all_input_nodes if n.op == "get_attr"]
    graphs = [m.graph for m in inner if isinstance(m, fx.GraphModule)]
    return not graphs or any(_mutated(n) for graph in graphs for n in graph.nodes)


def _is_in_place(function: Any, node: fx.Node) -> bool:
    """Whether a function such as torch.nn.functional.relu is called with inplace=True."""
    try:
        given = inspect.signature(function).bind(*node.args, **node.kwargs).arguments
    except (TypeError, ValueError):  # built-in functions have no signature and no such argument
        return bool(node.kwargs.get("inplace"))
    return bool(given.get("inplace"))
