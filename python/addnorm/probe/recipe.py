"""What a model's names and configuration declare: the first line of a profile."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

from torch import nn

from .names import ATTENTION, attribute, is_projection, output_dim, weight_named

if TYPE_CHECKING:
    from .probe import Probe

PLACEMENTS = {"before": "pre", "after": "post", "before inside": "sandwich", "inside": "reordered",
              "": "none"}


class Declared:
    def __init__(self, probe: Probe):
        self._probe = probe

    def config(self, *names: str) -> Any:
        return attribute(getattr(self._probe.model, "config", None), *names)

    @staticmethod
    def norm_kind(norm: Optional[nn.Module]) -> Optional[str]:
        name = type(norm).__name__
        if re.search(r"rms|T5.*Norm", name, re.I):  # T5's has LayerNorm in its name
            return "rms"
        return "layer" if "layernorm" in name.lower() else None

    def gamma_form(self) -> Optional[str]:
        kind = str(self.config("model_type"))
        known = r"gpt2|bert|roberta|llama|mistral|qwen[23]|olmo2|t5|phi3?|gpt_neox|opt"
        return self._probe.recipe.get("gamma_form") or (
            "one_plus" if kind.startswith("gemma") else
            "plain" if re.fullmatch(known, kind) else None)

    def norm_slots(self) -> Dict[str, Tuple[str, str]]:
        slots: Dict[str, Tuple[str, str]] = {}
        for (name, kind, slot), _ in self._probe.slots.most_common():
            slots.setdefault(name, (kind, slot))
        return slots

    def placement(self) -> Optional[str]:
        slots = self.norm_slots().values()
        rows = [PLACEMENTS.get(" ".join(sorted(slot for k, slot in slots if k == kind)))
                for kind in ("attention", "feed_forward")]
        if self._probe.width is None or None in rows:
            return None
        return rows[0] if rows[0] == rows[1] else "/".join(map(str, rows))

    def facts(self) -> Dict[str, Any]:
        probe = self._probe
        modules = dict(probe.elements[0].module.named_modules())
        norms = [modules[name] for name in self.norm_slots() if name in modules]
        declared = Counter(filter(None, map(self.norm_kind, norms)))
        heads = ("num_attention_heads", "n_head", "num_heads", "n_heads", "heads")
        eps = ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps",
               "variance_epsilon", "eps", "epsilon")
        layers = 1 + max((site.layer for site in probe.entries if site.layer is not None),
                         default=len(probe.elements) - 1)
        facts = {
            "d_model": probe.width,
            "n_layers": layers,
            "n_heads": next((n for n in (self.config(*heads), *(
                attribute(m, *heads) for m in modules.values())) if isinstance(n, int)), None),
            "d_ff": next((m.weight.shape[output_dim(m)] for name, m in modules.items()
                          if is_projection(m) and not ATTENTION.search(name) and
                          weight_named(name, False) in ("up", "gate")
                          and max(m.weight.shape) == m.weight.shape[output_dim(m)]), None),
            "placement": self.placement(),
            "norm": declared.most_common(1)[0][0] if declared else None,
            "eps": next((e for e in (self.config(*eps), *(attribute(n, *eps) for n in norms))
                         if e is not None), None),
            "gamma_form": self.gamma_form() or (
                "plain" if norms and all(type(n) is nn.LayerNorm for n in norms) else None),
            "parameters": sum(p.numel() for p in probe.model.parameters()),
            "architecture": type(probe.model).__name__,
            "model_type": self.config("model_type"),
            **probe.recipe,
        }
        return {key: value for key, value in facts.items() if value is not None}
