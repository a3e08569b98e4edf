"""Compares the computation with the configuration: numbers of heads, dropout rates, ε, and types."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from typing import Any

import torch
from torch import Tensor, nn

from ..._structure import EPSILONS, HEADS, dtype_name, entry, is_norm_class
from ..run.functions import DROPOUTS, PRODUCTS, SOFTMAX, FunctionCheck, argument, dropout_rate
from ..run.structure import entries, places_of
from ..run.subject import Subject
from ..run.tensors import is_16_bit
from ..run.text import some

CASTS = {"to", "half", "bfloat16", "type"}
MASKS = {"masked_fill", "masked_fill_", "where", "add", "add_", "__add__", "__radd__", "__iadd__", "sub", "float", "to"}
WIDE = {"None", "float32", "torch.float32"}  # configuration entries of a model that computes in float32
FLOAT32_ATTENTION = {None, "eager", "sdpa"}  # implementations that take float32; others need casts
USUAL_EPSILONS = {1e-5, 1e-6, 1e-8, 1e-12}  # modules use these whatever the configuration says
ADAPTER = re.compile(r"lora|adapter", re.I)


class Computed(FunctionCheck):
    """Compares the function calls of forwards, in evaluation or in training, with the configuration."""

    checks = "unlike-config, dropout-before-softmax, cast-to-half"

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self._heads: dict[str, int] = {}
        self._rates: dict[float, list[str]] = {}
        self._product: torch.Size | None = None  # the shape of the last product
        self._dropped: Tensor | None = None  # the last scores after a dropout, or after a mask that follows it
        self._before_softmax: dict[str, None] = {}  # places in order of their calls
        self._casts: dict[str, str] = {}
        self._is_wide = all(p.dtype == torch.float32 for p in subject.parameters.values())

    def __call__(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        if _autocasts():
            self._is_wide = False
        if name in PRODUCTS and isinstance(result, Tensor):
            self._product = result.shape
        elif name in SOFTMAX:
            if isinstance(result, Tensor) and result.dim() == 4 and result.shape == self._product:
                self._heads.setdefault(self._subject.where(), result.shape[1])
            if self._dropped is not None and args and args[0] is self._dropped:
                self._before_softmax[self._subject.where()] = None
        elif name == "scaled_dot_product_attention" and (q := argument(args, kwargs, 0, "query")).dim() == 4:
            self._heads.setdefault(self._subject.where(), q.shape[1])
        elif name in DROPOUTS and (rate := dropout_rate(name, args, kwargs)) > 0:
            self._dropped = result if result.shape == self._product else None
            self._rates.setdefault(rate, []).append(self._subject.where())
        elif name in MASKS and self._dropped is not None and any(a is self._dropped for a in args):
            self._dropped = result
        if name in CASTS and self._is_wide and isinstance(result, Tensor):
            if is_16_bit(result) and result.dim() > 1:
                self._casts.setdefault(self._subject.where(), dtype_name(result))

    def add_lines(self) -> None:
        self._dropped = None
        heads = entry(self._subject.config, *HEADS)
        if isinstance(heads, int) and entry(self._subject.config, "head_ratio") is None:  # ConvBERT divides heads by it
            known = {value for key, value in entries(self._subject.config) if "head" in key and type(value) is int}
            for place, count in self._heads.items():
                if count not in known:
                    self._subject.add_line("unlike-config", count, limit=heads, where=place, detail="heads")
        for place in self._before_softmax:
            self._subject.add_line("dropout-before-softmax", 1, where=place)
        self._add_casts()
        self._add_rates()
        self._add_epsilons()

    def _add_casts(self) -> None:
        """Adds the casts of a few layers. If most layers cast, that is mixed precision without autocast, unless the
        configuration of a class of transformers says that the model computes in float32."""
        def group(module: nn.Module) -> Any:
            name = self._subject.names[module]
            return type(module), self._subject.of_all_layers(name)

        often = Counter(map(group, self._subject.names))
        casts: dict[Any, list[str]] = defaultdict(list)
        for place in self._casts if self._is_wide else ():
            if self._subject.layer_of(place):
                casts[group(self._subject.model.get_submodule(place))].append(place)
        config = self._subject.config
        is_declared = self._subject.is_of_transformers and str(entry(config, "dtype", "torch_dtype")) in WIDE and \
            entry(config, "_attn_implementation") in FLOAT32_ATTENTION
        odd = [place for key, places in casts.items() if is_declared or 2 * len(places) < often[key]
               for place in places]
        if odd:
            self._subject.add_line("cast-to-half", len(odd), where=some(odd), detail=self._casts[odd[0]])

    def _add_rates(self) -> None:
        """Adds dropout rates in layers that no entry of the configuration has. It describes neither adapters
        nor heads that were added to a model."""
        known = {value for key, value in entries(self._subject.config) if "drop" in key and type(value) in (int, float)}
        for rate, found in self._rates.items() if known else ():
            places = [place for place in found if self._subject.layer_of(place) and not self._is_in_adapter(place)]
            if places and not any(abs(rate - value) < 1e-6 for value in known):
                self._subject.add_line("unlike-config", rate, limit=max(known), where=some(dict.fromkeys(places), 1),
                                       detail="as the rate of dropout")

    def _is_in_adapter(self, place: str) -> bool:
        """Returns whether a module or one around it has matrices A and B, or the name of an adapter."""
        modules = [self._subject.model.get_submodule(name) for name in places_of(place)]
        names = [{*m._modules, *m._parameters} for m in modules]
        return bool(ADAPTER.search(place)) or any(
            ADAPTER.search(type(m).__name__)
            or {"A", "B"} <= {name[-1:].upper() for name in own if re.fullmatch(r"(.*_)?[abAB]", name)}
            for m, own in zip(modules, names))

    def _add_epsilons(self) -> None:
        """Adds an ε of most norms of a class that is neither an entry of the configuration nor a usual one. The probe
        compares the ε of a single norm with that of the others."""
        known = {value for key, value in entries(self._subject.config)
                 if re.search(r"(^|_)eps(ilon)?($|_)", key) and isinstance(value, float)}
        found: dict[type, dict[float, list[str]]] = defaultdict(lambda: defaultdict(list))
        for module, place in self._subject.names.items():
            epsilon = entry(module, *EPSILONS) if is_norm_class(module) else None
            if isinstance(epsilon, float):
                found[type(module)][epsilon].append(place)
        for places_of_class in found.values() if known else ():
            epsilon, places = max(places_of_class.items(), key=lambda item: len(item[1]))
            if not any(math.isclose(epsilon, e) for e in known | USUAL_EPSILONS):
                self._subject.add_line("unlike-config", epsilon, limit=max(known), where=some(places, 1), detail="as ε")


def _autocasts() -> bool:
    try:
        return torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")
    except TypeError:  # PyTorch before 2.4
        return torch.is_autocast_enabled() or torch.is_autocast_cpu_enabled()
