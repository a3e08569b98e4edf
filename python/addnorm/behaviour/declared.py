"""The computation beside the configuration: numbers of heads, dropout rates, ε, positions, logits, and types."""

from __future__ import annotations

import math
import re
from typing import Any, Iterator

import torch
from torch import Tensor, nn

from .._structure import HEADS, entry
from .operators import DROPOUTS, PRODUCTS, SOFTMAX, dropout_rate, multiple
from .structure import is_norm, relative_difference, rms, some
from .subject import Subject

CASTS = {"to", "half", "bfloat16", "type"}
MASKS = {"masked_fill", "masked_fill_", "where", "add", "add_", "__add__", "__radd__", "__iadd__", "sub", "float", "to"}
USUAL_EPSILONS = {1e-5, 1e-6, 1e-8, 1e-12}  # modules have them whatever the configuration says
POSITIONS = re.compile(r"wpe|embed_positions?|(position|pos)(al)?_?(emb(ed)?(dings?)?)?s?")


class Computed:
    """Watches the functions of forwards, in evaluation or in training, for what the configuration declares."""

    def __init__(self, s: Subject) -> None:
        self._s = s
        self._heads: dict[str, int] = {}
        self._rates: dict[float, list[str]] = {}
        self._product: torch.Size | None = None  # the shape of the last product
        self._dropped: Tensor | None = None  # the last scores behind a dropout, or behind a mask that follows it
        self._before_softmax: dict[str, None] = {}  # places, in their order
        self._casts: dict[str, str] = {}
        self._is_wide = all(p.dtype == torch.float32 for p in s.parameters.values())

    def __call__(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        if _autocasts():
            self._is_wide = False
        if name in PRODUCTS and isinstance(result, Tensor):
            self._product = result.shape
        elif name in SOFTMAX:
            if isinstance(result, Tensor) and result.dim() == 4 and result.shape == self._product:
                self._heads.setdefault(self._s.where(), result.shape[1])
            if self._dropped is not None and args and args[0] is self._dropped:
                self._before_softmax[self._s.where()] = None
        elif name == "scaled_dot_product_attention" and args and args[0].dim() == 4:
            self._heads.setdefault(self._s.where(), args[0].shape[1])
        elif name in DROPOUTS and (rate := dropout_rate(name, args, kwargs)) > 0:
            self._dropped = result if result.shape == self._product else None
            self._rates.setdefault(rate, []).append(self._s.where())
        elif name in MASKS and self._dropped is not None and any(a is self._dropped for a in args):
            self._dropped = result
        if name in CASTS and self._is_wide and isinstance(result, Tensor):
            if result.dtype in (torch.float16, torch.bfloat16) and result.dim() > 1:
                self._casts.setdefault(self._s.where(), str(result.dtype).replace("torch.", ""))

    def add(self) -> None:
        self._dropped = None
        heads = entry(self._s.config, *HEADS)
        if isinstance(heads, int) and entry(self._s.config, "head_ratio") is None:  # which ConvBERT divides heads by
            for place, count in self._heads.items():
                if count != heads:
                    self._s.add("unlike-config", count, limit=heads, where=place, detail="heads")
        for place in self._before_softmax:
            self._s.add("dropout-before-softmax", 1, where=place)
        for place, dtype in self._casts.items() if self._is_wide else ():
            self._s.add("cast-to-half", 1, where=place, detail=dtype)
        self._add_rates()
        self._add_epsilons()

    def _add_rates(self) -> None:
        """Adds dropout rates that no entry of the configuration has."""
        known = {value for key, value in _entries(self._s.config) if "drop" in key and isinstance(value, (int, float))}
        if not known:
            return
        for rate, places in self._rates.items():
            if not any(abs(rate - value) < 1e-6 for value in known):
                self._s.add("unlike-config", rate, limit=max(known), where=some(dict.fromkeys(places), 1),
                            detail="as the rate of dropout")


    def _add_epsilons(self) -> None:
        """Adds norms whose ε is neither an entry of the configuration nor a usual one."""
        known = {float(value) for key, value in _entries(self._s.config) if "eps" in key and isinstance(value, float)}
        odd: dict[float, list[str]] = {}
        for module, place in self._s.names.items():
            epsilon = entry(module, "eps", "variance_epsilon", "epsilon") if is_norm(module) else None
            if isinstance(epsilon, float) and not any(math.isclose(epsilon, e) for e in known | USUAL_EPSILONS):
                odd.setdefault(epsilon, []).append(place)
        for epsilon, places in odd.items() if known else ():
            self._s.add("unlike-config", epsilon, limit=max(known), where=some(places, 1), detail="as ε")


def _autocasts() -> bool:
    try:
        return torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")
    except TypeError:  # PyTorch before 2.4
        return torch.is_autocast_enabled() or torch.is_autocast_cpu_enabled()


def _entries(config: Any) -> Iterator[tuple[str, Any]]:
    yield from (config if isinstance(config, dict) else getattr(config, "__dict__", {})).items()


# -- Positions and logits --


class Indices:
    """The indices of embeddings of positions, and the output of the head, in one forward."""

    def __init__(self, s: Subject) -> None:
        self._s = s
        self._positions: dict[str, tuple[Tensor, nn.Embedding]] = {}
        self._head: tuple[nn.Module, Tensor] | None = None  # the last linear map
        self._sizes = {m.num_embeddings for m in s.names if isinstance(m, nn.Embedding) and m.num_embeddings > 8}

    def __call__(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        running = self._s.runs[-1].inside
        if name == "linear" and running and type(running[-1]) is nn.Linear:
            self._head = running[-1], result.detach()
        elif name == "embedding" and running and isinstance(running[-1], nn.Embedding):
            place = self._s.names[running[-1]]
            if POSITIONS.fullmatch(place.rpartition(".")[2]):
                self._positions.setdefault(place, (args[0].detach(), running[-1]))

    def add(self, output: Tensor | None, has_logits: bool) -> None:
        given = any("position" in key for key in self._s.named)
        for place, (index, table) in self._positions.items():
            rows = index.reshape(-1, index.shape[-1]) if index.dim() else index.reshape(1, 1)
            for row in () if given else rows:
                kept = row if table.padding_idx is None else row[row != table.padding_idx]
                if self._add_positions(place, kept, table):
                    break
        self._add_logits(output, has_logits)

    def _add_positions(self, place: str, row: Tensor, table: nn.Embedding) -> bool:
        """Whether the positions of one sequence are wrong, which is added."""
        repeated = len(row) - len(row.unique())
        if len(row) > 2 and repeated:
            self._s.add("positions-wrong", repeated, where=place,
                        detail="tokens of a sequence have the position of another one")
            return True
        config = self._s.config
        longest = entry(config, "max_position_embeddings", "n_positions")
        firsts = {0, getattr(table, "offset", 0), 0 if table.padding_idx is None else table.padding_idx + 1,
                  (entry(config, "pad_token_id") or 0) + 1 if table.padding_idx is not None else 0,
                  table.num_embeddings - longest if isinstance(longest, int) else 0}
        if len(row) > 2 and bool((row.diff() == 1).all()) and int(row[0]) not in firsts:
            self._s.add("positions-wrong", int(row[0]), where=place,
                        detail=f"is the first position, and the table begins at {max(firsts)}")
            return True
        return False

    def _add_logits(self, logits: Tensor | None, is_named: bool) -> None:
        """Adds logits that are not what the head returned, and a bias, unless the configuration scales or bounds them.
        Those of another head may go through any function but a factor or another order."""
        if self._head is None or logits is None or any(value is not None for key, value in _entries(self._s.config)
                                                       if "logit" in key or "softcap" in key):
            return
        head, made = self._head
        if logits.shape != made.shape or (difference := relative_difference(logits, made)) < 1e-3:
            return
        added = (logits - made).flatten(0, -2)
        if len(added) > 1 and rms(added - added.mean(0)) < 1e-5 * rms(added):  # a bias of its own
            return
        is_moved = bool((logits.sort(-1).values - made.sort(-1).values).abs().max() < 1e-6 * made.abs().max())
        if head.out_features in self._sizes or is_named and (is_moved or multiple(logits, made) is not None):
            self._s.add("logits-changed", difference, where=self._s.names[head])
