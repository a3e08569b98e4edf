"""Stores the measured numbers of a model, and the fits whose numbers have not been read yet."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

import torch
from torch import Tensor

from ..._structure import parent_of
from ..._undo import Undo
from ..find.streams import Found
from ..find.sublayers import Sublayer, name_in_layer
from ..fit.batch import Compute, Fits, Numbers
from .profile import SeenSublayer, Site


class Measured:
    """The measured numbers by site, and the parts that could not be measured."""

    def __init__(self, undo: Undo) -> None:
        """undo: removes the hooks on gradients at the end."""
        self._undo = undo
        self._fits = Fits(self._miss_fit)
        self.step = 0
        self.entries: Dict[Site, Numbers] = {}
        self.graded: Set[Site] = set()  # sites whose gradient has a hook
        self.owners: Dict[Any, Optional[int]] = {}  # {(step, id of a parameter): the first layer that uses it}
        self.sublayers: Dict[Tuple[int, int], SeenSublayer] = {}  # by layer and index
        self.n_measured = 0  # the number of sublayers in all steps
        self.slots: Counter = Counter()  # counts of (name in the layer, sublayer, slot) of norms
        self.layer_names: Dict[int, str] = {}
        self.sublayer_names: Dict[Tuple[int, str], str] = {}  # the modules of sublayers
        self.width: Optional[int] = None
        self.lanes = 0  # the number of lanes, if the stream has several
        self.input_shape: Optional[torch.Size] = None  # the shape of the first layer's input stream
        self.seen: Dict[str, List[int]] = {"sums": [0, 0], "norms": [0, 0], "attentions": [0, 0],
                                           "gradients": [0, 0]}
        self.left_out: List[Dict[str, str]] = []
        self.keeps_graph = True  # whether gradients are enabled when the model is called
        self._without_graph: Dict[str, None] = {}  # layers whose gradients cannot be measured, in order
        self._others: Dict[str, torch.Size] = {}  # streams of other shapes, by the lists of their layers

    # -- Findings --

    def begin(self, found: Found, keeps_graph: bool) -> None:
        """Begins a forward pass. found: the streams in it."""
        self.keeps_graph = keeps_graph
        self.input_shape = self.input_shape or found.input_shape
        for where, why in found.missed.items():
            self.miss(where, why)
        for layer, shape in found.others.items():
            self._others.setdefault(parent_of(layer) or layer, shape)

    def add_sublayer(self, sub: Sublayer) -> None:
        norms = [(slot, name_in_layer(norm, sub.module)) for slot, norm in sub.norms()]
        self.slots.update((name, sub.kind, slot) for slot, name in norms)
        self.layer_names.setdefault(sub.layer, sub.module)
        self.sublayer_names.setdefault((sub.layer, sub.kind), sub.branch.module)
        self.sublayers[sub.layer, sub.index] = SeenSublayer(sub.kind, sub.layer, sub.module, sub.index, norms,
                                                            sub.has_own_slots)
        self.n_measured += 1

    # -- Parts that are left out --

    def miss(self, where: str, why: str) -> None:
        """Notes a part that is not measured, once for all steps."""
        missed = {"where": where or "the model", "why": why}
        if missed not in self.left_out:
            self.left_out.append(missed)

    def miss_sum(self, where: str, why: str) -> None:
        self.count("sums", False)
        self.miss(where, why)

    def miss_graph(self, layer: str) -> None:
        """Notes a layer that runs without a graph, if gradients are enabled for the model."""
        if self.keeps_graph:
            self._without_graph[layer] = None

    def count(self, what: str, is_measured: bool) -> None:
        self.seen[what][0] += is_measured
        self.seen[what][1] += 1

    def coverage(self) -> Dict[str, Any]:
        """Returns [measured, seen] of sums, norms, attentions and gradients, and the parts that were left out."""
        others = [{"where": where, "why": "the layers also take and return a stream of ["
                   f"{', '.join(map(str, shape))}], whose sums and norms were not measured"}
                  for where, shape in self._others.items() if not self.lanes]
        return {**self.seen, "left_out": self.left_out + others + self._words_of_graph()}

    def _words_of_graph(self) -> List[Dict[str, str]]:
        if not self._without_graph:
            return []
        first, *others = self._without_graph
        where = f"{first} and {len(others)} more" if others else first or "the model"
        return [{"where": where, "why": "the forward ran without a graph, as in a reentrant checkpoint or under "
                 "torch.no_grad, so the gradients in it were not judged"}]

    # -- Fits --

    def guarded(self, function: Callable[..., None], *arguments: Any) -> None:
        """Calls a function, and notes its error instead of raising it, so that the observed model continues."""
        try:
            function(*arguments)
        except Exception as error:
            self._miss_fit(self._fits.where, error)

    def _miss_fit(self, where: str, error: Exception) -> None:
        """Notes an error of the first layer that has it."""
        why = f"{type(error).__name__}: {error}"
        if not any(missed["why"] == why for missed in self.left_out):
            self.miss(where, why)

    def begin_layer(self, where: str) -> None:
        """Sets the layer of the fits that are requested next."""
        self._fits.where = where

    def fit(self, compute: Compute, tensors: Sequence[Optional[Tensor]], then: Callable[[Numbers], None],
            *options: Any) -> None:
        """Requests `then` to be called with the numbers of compute(*tensors, *options) when the step is read."""
        self._fits.add(compute, tensors, functools.partial(self.guarded, then), *options)

    def finally_do(self, function: Callable[[], None]) -> None:
        """Requests a call of `function` after the numbers requested so far are read."""
        self._fits.finally_do(functools.partial(self.guarded, function))

    def run_fits(self, least: int = 0) -> None:
        """Runs the requested fits, if their tensors have at least `least` values in total. This must happen before the
        tensors are overwritten."""
        self.guarded(self._fits.run, least)

    def read(self) -> None:
        self.guarded(self._fits.read)

    def forget_fits(self) -> None:
        self._fits.clear()

    # -- Gradients --

    def hook_gradient(self, tensor: Tensor, function: Callable[[Tensor], None]) -> None:
        self._undo.hook_gradient(tensor, self._guarded_hook(function))

    def hook_edge(self, edge: Tuple[Any, int], function: Callable[[Tensor], None]) -> None:
        self._undo.hook_edge(edge, self._guarded_hook(function))

    def _guarded_hook(self, function: Callable[[Tensor], None]) -> Callable[[Optional[Tensor]], None]:
        """Returns a hook that calls the function and notes its errors, so that backward continues. A gradient of None
        means zero and is skipped."""
        def guarded(values: Optional[Tensor]) -> None:
            try:
                if values is not None:
                    function(values)
            except Exception as error:
                self.miss("gradients", f"{type(error).__name__}: {error}")

        return guarded
