"""Stores the measured numbers of a model, and the fits whose numbers have not been read yet."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch
from torch import Tensor

from ..._undo import Undo
from ..find.streams import Found
from ..find.sublayers import Sublayer, name_in_layer
from ..fit.batch import Compute, Fits, Numbers
from .coverage import Coverage
from .profile import Site


class SeenSublayer(NamedTuple):
    """A sublayer and the slots of its norms."""
    kind: str
    layer: int
    layer_module: str
    index: int  # its index among the sublayers of its layer's module
    norms: List[Tuple[str, str]]  # (slot, name in the layer)
    has_own_slots: bool


class Measured:
    """The measured numbers by site."""

    def __init__(self, undo: Undo) -> None:
        """undo: removes the hooks on gradients at the end."""
        self._undo = undo
        self.coverage = Coverage()
        self._fits = Fits(self.coverage.miss_error)
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

    # -- Findings --

    def begin(self, found: Found, keeps_graph: bool) -> None:
        """Begins a forward pass. found: the streams in it."""
        self.input_shape = self.input_shape or found.input_shape
        self.coverage.begin(found, keeps_graph)

    def add_sublayer(self, sub: Sublayer) -> None:
        norms = [(slot, name_in_layer(norm, sub.module)) for slot, norm in sub.norms()]
        self.slots.update((name, sub.kind, slot) for slot, name in norms)
        self.layer_names.setdefault(sub.layer, sub.module)
        self.sublayer_names.setdefault((sub.layer, sub.kind), sub.branch.module)
        self.sublayers[sub.layer, sub.index] = SeenSublayer(sub.kind, sub.layer, sub.module, sub.index, norms,
                                                            sub.has_own_slots)
        self.n_measured += 1

    # -- Fits --

    def guarded(self, function: Callable[..., None], *arguments: Any) -> None:
        """Calls a function, and notes its error instead of raising it, so that the observed model continues."""
        try:
            function(*arguments)
        except Exception as error:
            self.coverage.miss_error(self._fits.where, error)

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
        """Runs the requested fits, before their tensors are overwritten, if those have at least `least` values."""
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
        """Returns a hook that skips a gradient of None, which means 0, and notes errors, so that backward continues."""
        def guarded(values: Optional[Tensor]) -> None:
            try:
                if values is not None:
                    function(values)
            except Exception as error:
                self.coverage.miss("gradients", f"{type(error).__name__}: {error}")

        return guarded
