"""Infers the placement of norms from those that were found."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Dict, List, Optional, Set

from torch import nn

from ..._structure import parent_of
from ...torch.stack import Stack
from .measured import Measured, SeenSublayer

PLACEMENTS = {"before": "pre", "after": "post", "before inside": "sandwich", "inside": "reordered", "": "none"}


class PlacementFinder:
    """Finds the placement of a model. modules: the model's modules by name."""

    def __init__(self, modules: Dict[str, nn.Module], measured: Measured) -> None:
        self._modules, self._measured = modules, measured

    def placement(self) -> Optional[str]:
        """Returns the placements of all layers in the notation of `addnorm study --placement`: "pre", or
        "pre:1+sandwich". Returns "unknown" if the norms of a layer fit no placement. An addnorm.torch.Stack that
        contains all layers declares it."""
        layers = self._measured.layer_names
        stacks = [module for module in self._modules.values() if isinstance(module, Stack)]
        if len(stacks) == 1 and len(stacks[0].layers) == len(layers):
            return stacks[0].placement
        names = [self._layer_placement(layer) for layer in sorted(layers)]
        if None in names:
            return "unknown"
        runs = [(name, len(list(run))) for name, run in itertools.groupby(names)]
        return "+".join([f"{name}:{n}" for name, n in runs[:-1]] + [str(runs[-1][0])]) if runs else None

    def _layer_placement(self, layer: int) -> Optional[str]:
        slots: Dict[str, Set[str]] = {"attention": set(), "feed_forward": set()}
        for sub in self._measured.sublayers.values():
            if sub.layer == layer:
                slots[sub.kind] = self._usual_slots(sub)
        rows = [PLACEMENTS.get(" ".join(sorted(found))) for found in slots.values()]
        if None in rows:
            return None
        return rows[0] if rows[0] == rows[1] else "/".join(map(str, rows))

    def _usual_slots(self, sub: SeenSublayer) -> Set[str]:
        """Returns the slots in which most layers of the same class have a norm, if this layer has that module."""
        if sub.has_own_slots:
            return {slot for slot, _ in sub.norms}
        kind = type(self._modules[sub.layer_module])
        peers = [peer for peer in self._measured.sublayers.values() if (peer.kind, peer.index) == (sub.kind, sub.index)
                 and type(self._modules[peer.layer_module]) is kind]
        found: Dict[str, Counter] = {}
        for peer in peers:
            for slot, name in peer.norms:
                found.setdefault(slot, Counter())[name] += 1
        usual = {slot for slot, names in found.items() if 2 * sum(names.values()) > len(peers)
                 and any(self._has_norm(sub.layer_module, name) for name in names)}
        return usual | {slot for slot, name in sub.norms if self._is_extra(name, peers)}

    def _is_extra(self, name: str, peers: List[SeenSublayer]) -> bool:
        """Whether most layers have an Identity in place of this norm, such as the last norm of a stage of Swin V2."""
        idle = [isinstance(self._modules.get(f"{peer.layer_module}.{name}"), nn.Identity) for peer in peers]
        return 2 * sum(idle) > len(peers)

    def _has_norm(self, layer: str, name: str) -> bool:
        """Whether a layer has a norm. A norm that is not a module counts, and an Identity does not."""
        whole = f"{layer}.{name}" if layer else name
        module = self._modules.get(whole, self._modules.get(name))
        is_other_layers = module is None and any(
            f"{other}.{name}" in self._modules for other in set(self._measured.layer_names.values()))
        is_idle = isinstance(module, nn.Identity) and not self._lacks_alone(layer, name)
        return not is_other_layers and not is_idle

    def _lacks_alone(self, layer: str, name: str) -> bool:
        """Whether a layer is the only one of its list with an Identity in place of a norm. The first and the last layer
        do not count, because their input or output may be normalized elsewhere."""
        kind = type(self._modules[layer])
        peers = [path for _, path in sorted(self._measured.layer_names.items())
                 if parent_of(path) == parent_of(layer) and type(self._modules[path]) is kind]
        peers = [path for path in dict.fromkeys(peers) if f"{path}.{name}" in self._modules]
        idle = [path for path in peers if isinstance(self._modules[f"{path}.{name}"], nn.Identity)]
        return len(peers) > 3 and idle == [layer] and layer not in (peers[0], peers[-1])
