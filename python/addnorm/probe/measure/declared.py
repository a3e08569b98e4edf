"""Reads the declarations of a model's names and configuration for the first line of a profile."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from typing import Any, Dict, Iterable, List, Optional, Tuple

from torch import nn

from ..._core import family_facts
from ..._structure import EPSILONS, HEADS, entry, parent_of
from ..find.layers import Element
from ..find.names import ATTENTION, is_projection, weight_named
from ..find.norm_names import norm_kind
from ..fit.batch import Numbers
from .measured import Measured
from .placement import PlacementFinder

# Names in implementations of manifold-constrained hyper-connections (mHC). MHCA is attention, and some routers of
# experts use Sinkhorn's algorithm too.
MHC = re.compile(r"mhc(?!a)|sinkhorn|birkhoff|manifold_?constrained", re.I)
OTHER_SINKHORN = re.compile(r"rout|gat(e|ing)|moe|expert|attn|attention", re.I)


def names_mhc(path: str, module: nn.Module) -> bool:
    """Whether a module's name, its class or a name in its methods says that it is mHC."""
    names = [path.rpartition(".")[2], type(module).__name__]
    if any(map(OTHER_SINKHORN.search, names)):
        return False
    used = [name for method in vars(type(module)).values() if hasattr(method, "__code__")
            for name in method.__code__.co_names]
    return any(map(MHC.search, names + used))


def output_dim(module: nn.Module) -> int:
    """Returns the output dimension of a projection's weight: 1 for GPT-2's Conv1D, else 0."""
    return 1 if type(module).__name__ == "Conv1D" else 0


class Declared:
    """The facts that a model's code declares, supplemented by measurements."""

    def __init__(self, model: nn.Module, elements: List[Element], recipe: Dict[str, Any], measured: Measured) -> None:
        """recipe: facts given by the user, which override all others."""
        self._model, self._elements, self._recipe, self._measured = model, elements, recipe, measured
        self.modules = dict(model.named_modules())
        self._family = family_facts(str(self.config("model_type")))

    def config(self, *names: str) -> Any:
        return entry(getattr(self._model, "config", None), *names)

    def own_norm(self, norm: Optional[nn.Module]) -> Dict[str, Any]:
        """Returns the kind and the ε that a norm's class and attributes declare."""
        own = {"declared_norm": norm_kind(norm), "declared_eps": entry(norm, *EPSILONS)}
        return {key: value for key, value in own.items() if isinstance(value, (str, float))}

    def gamma_form(self) -> Optional[str]:
        return self._recipe.get("gamma_form") or self._family.get("gamma_form")

    def measured_gamma_form(self, entries: List[Numbers]) -> Optional[str]:
        """Returns the form of γ that most norms were measured to have, or None."""
        offsets = Counter(entry["gamma_offset"] for entry in entries if "gamma_offset" in entry).most_common()
        is_clear = len(offsets) == 1 or offsets and offsets[0][1] > offsets[1][1]
        return ("plain", "one_plus")[int(offsets[0][0])] if is_clear else None

    def norm_slots(self) -> Dict[str, Tuple[str, str]]:
        slots: Dict[str, Tuple[str, str]] = {}
        for (name, kind, slot), _ in self._measured.slots.most_common():
            slots.setdefault(name, (kind, slot))
        return slots

    def lane_form(self) -> Optional[str]:
        """Returns "mhc" if the stream has lanes and the code's names say mHC, else None."""
        is_mhc = self._measured.lanes and any(names_mhc(name, m) for name, m in self.modules.items())
        return "mhc" if is_mhc else None

    def norm(self, norms: List[nn.Module], entries: List[Numbers]) -> Optional[str]:
        """Returns the kind of most norms by their names. Unknown LayerNorms that do not centre rows count as "rms"."""
        declared = Counter(filter(None, map(norm_kind, norms))).most_common(1)
        centred = [entry["centred"] > 0.5 for entry in entries if "centred" in entry]
        is_known = "norm" in self._family or any(type(n) in (nn.LayerNorm, getattr(nn, "RMSNorm", None)) for n in norms)
        if declared and declared[0][0] == "layer" and not is_known and centred and not any(centred):
            return "rms"
        return declared[0][0] if declared else None

    def epsilon(self, norms: List[nn.Module]) -> Optional[float]:
        """Returns the configuration's ε, or that of most modules if none has the configuration's."""
        of_config = self.config(*EPSILONS)
        of_modules = [e for e in (entry(n, *EPSILONS) for n in norms) if isinstance(e, float)]
        if of_modules and of_config not in of_modules:
            return Counter(of_modules).most_common(1)[0][0]
        return of_config

    def norm_facts(self, layers: Iterable[nn.Module], entries: List[Numbers]) -> Dict[str, Any]:
        """Returns the kind of norm, the ε and the form of γ in some layers. entries: the numbers of their norms."""
        slots = self.norm_slots()
        norms = [m for layer in layers for name, m in layer.named_modules() if name in slots]
        return {"norm": self.norm(norms, entries), "eps": self.epsilon(norms),
                "gamma_form": self.gamma_form() or (
                    "plain" if norms and all(type(n) is nn.LayerNorm for n in norms) else
                    self.measured_gamma_form(entries))}

    def sublayer_modules(self) -> Dict[str, List[str]]:
        """Returns the modules of sublayers by layer if there are several lists of layers, such as an encoder's and a
        decoder's. There, the number of a layer does not identify it well."""
        if len({parent_of(name) for name in self._measured.layer_names.values()}) == 1:
            return {}
        return {f"{kind}_modules": [self._measured.sublayer_names.get((layer, kind), "")
                                    for layer in sorted(self._measured.layer_names)]
                for kind in ("attention", "feed_forward")}

    def stacks(self, usual: Dict[str, Any]) -> Optional[List[Dict[str, Any]]]:
        """Returns the facts about the norms of each list of layers, or None if all lists have the same facts. A vision
        tower and a language model may differ. The final norm belongs to the last list."""
        first: List[int] = []
        found: List[Dict[str, Any]] = []
        layers = sorted(self._measured.layer_names.items())
        for parent, run in itertools.groupby(layers, key=lambda layer: parent_of(layer[1])):
            numbers, paths = zip(*run)
            is_last = numbers[-1] == layers[-1][0]
            entries = [entry for site, entry in self._measured.entries.items() if site.layer in numbers
                       or site.layer is None and is_last]
            own = self.norm_facts([self.modules[path] for path in dict.fromkeys(paths)], entries)
            own = {key: usual[key] if value is None else value for key, value in own.items()}
            first.append(numbers[0])
            found.append(own)
        if all(own == usual for own in found):
            return None
        return [{"first_layer": layer, **own} for layer, own in zip(first, found)]

    def facts(self) -> Dict[str, Any]:
        modules = dict(self._elements[0].module.named_modules())
        layers = 1 + max((site.layer for site in self._measured.entries if site.layer is not None),
                         default=len(self._elements) - 1)
        norms = self.norm_facts([self._elements[0].module], list(self._measured.entries.values()))
        facts = {
            "d_model": self._measured.width,
            "n_layers": layers,
            "n_heads": next((n for n in (self.config(*HEADS), *(
                entry(m, *HEADS) for m in modules.values())) if isinstance(n, int)), None),
            "d_ff": next((m.weight.shape[output_dim(m)] for name, m in modules.items()
                          if is_projection(m) and not ATTENTION.search(name) and
                          weight_named(name, False) in ("up", "gate")
                          and max(m.weight.shape) == m.weight.shape[output_dim(m)]), None),
            "placement": PlacementFinder(self.modules, self._measured).placement(),
            "n_lanes": self._measured.lanes or None,
            "lane_form": self.lane_form(),
            **norms,
            "parameters": sum(p.numel() for p in self._model.parameters()),
            "architecture": type(self._model).__name__,
            "model_type": self.config("model_type"),
            "layer_modules": [name for _, name in sorted(self._measured.layer_names.items())] or None,
            "stacks": self.stacks(norms),
            **self.sublayer_modules(),
            **self._recipe,
        }
        return {key: value for key, value in facts.items() if value is not None}
