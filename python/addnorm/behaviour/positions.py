"""Positions of tokens, and logits that are not the output of the head."""

from __future__ import annotations

import math
import re
from typing import Any

import torch
from torch import Tensor, nn

from .._structure import entry, tensors_in
from .configuration import entries
from .operators import argument, multiple
from .rerun import padding_mask
from .structure import relative_difference, rms
from .subject import Subject

POSITIONS = re.compile(r"wpe|embed_positions?|(position|pos)(al)?_?(emb(ed)?(dings?)?)?s?")
# Configuration entries that scale or bound the logits.
OF_LOGITS = {
    "logit_scale", "logits_scale", "logit_scaling", "logits_scaling", "logits_scaling_factor", "width_mult",
    "logit_scale_init_value", "max_logit_scale", "logit_multiplier", "logits_mup_width_multiplier", "mup_width_scale",
    "output_multiplier", "output_multiplier_scale", "output_scale", "lm_head_multiplier", "lm_head_scale",
    "final_logit_softcapping", "final_logit_softcap", "final_logits_softcapping", "logit_softcapping", "logit_softcap",
    "logits_softcap", "logits_soft_cap", "output_logit_soft_cap", "logit_cap", "logits_cap", "softcap", "soft_cap",
    "temperature", "logit_temperature", "logits_temperature", "contrastive_logits_temperature"}


class Indices:
    """Checks the indices of position embeddings and the output of the head in one forward."""

    checks = "positions-wrong, logits-changed"

    def __init__(self, s: Subject) -> None:
        self._s = s
        self._positions: dict[str, tuple[Tensor, nn.Embedding]] = {}
        self._padding: list[Tensor] = []  # whether tokens are padding, for each table with a padding id
        self._head: tuple[nn.Module, Tensor] | None = None  # the last linear map
        self._sizes = {m.num_embeddings for m in s.names if isinstance(m, nn.Embedding) and m.num_embeddings > 8}

    def __call__(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        running = self._s.runs[-1].inside
        if name == "linear" and running and type(running[-1]) is nn.Linear:
            self._head = running[-1], result.detach()
        elif name == "embedding" and running and isinstance(running[-1], nn.Embedding):
            place = self._s.names[running[-1]]
            index, table = argument(args, kwargs, 0, "input").detach(), running[-1]
            if POSITIONS.fullmatch(place.rpartition(".")[2]):
                self._positions.setdefault(place, (index, table))
                return
            is_of_words = table.num_embeddings == entry(self._s.config, "vocab_size")
            padding = entry(self._s.config, "pad_token_id") if is_of_words else table.padding_idx
            if isinstance(padding, int):
                self._padding.append(index == padding)

    def add(self, output: Tensor | None, has_logits: bool) -> None:
        given = self._s.given()
        integers = [t for t in tensors_in(given) if not t.is_floating_point()]
        for place, (index, table) in self._positions.items():
            if any("position" in key for key in given) or any(_is_offset(index, t) for t in integers):
                continue
            rows = index.reshape(-1, index.shape[-1]) if index.dim() else index.reshape(1, 1)
            for row, is_hidden in zip(rows, self._hidden(rows)):
                known = row != (-1 if table.padding_idx is None else table.padding_idx)
                if self._add_positions(place, row[known], row[known & ~is_hidden], table):
                    break
        self._add_logits(output, has_logits)

    def _hidden(self, rows: Tensor) -> Tensor:
        """Returns whether tokens are padding, by the batch's mask or by their ids."""
        mask = padding_mask(self._s)
        hidden = torch.zeros_like(rows, dtype=torch.bool)
        for found in (*self._padding, *([~mask[1]] if mask is not None else ())):
            if found.shape == rows.shape:
                hidden |= found.to(rows.device)
        return hidden

    def _add_positions(self, place: str, row: Tensor, kept: Tensor, table: nn.Embedding) -> bool:
        """Adds positions-wrong if the positions of one sequence are wrong, and returns whether they are. `kept` holds
        the positions of tokens that no mask hides. Each of several packed sequences may begin anew."""
        steps = kept.diff() == 1
        is_packed = bool(steps.any()) and bool((steps | (kept[1:] == kept[0])).all())
        repeated = len(kept) - len(kept.unique())
        if len(kept) > 2 and repeated and not is_packed:
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
        """Adds logits that are not what the head returned, unless the configuration scales or bounds them.

        A bias may be added, entries may be masked, and a function that keeps the order may bound them. In models
        outside of transformers, only zeros and reordered logits are faults. In classes of transformers, a factor
        without a configuration entry is a fault, and so is a function that changes the order. Logits of a head that is
        not over a vocabulary may go through any function.
        """
        if self._head is None or logits is None or self._s.config is None or any(
                key in OF_LOGITS and value is not None for key, value in entries(self._s.config)):
            return
        head, made = self._head
        if logits.shape != made.shape or logits.shape[-1] < 2:
            return
        logits, made = logits.flatten(0, -2), made.flatten(0, -2)
        seen = torch.isfinite(logits) & (logits > -1e4)
        logits, made = logits.masked_fill(~seen, -math.inf), made.masked_fill(~seen, -math.inf)
        if not bool(seen.any()) or (difference := relative_difference(logits[seen], made[seen])) < 1e-3:
            return
        added = (logits - made).masked_fill(~seen, 0)
        if len(added) > 1 and rms(added - added.mean(0)) < 1e-5 * rms(added):  # an added bias
            return
        is_moved = bool((logits.sort(-1).values - made.sort(-1).values).nan_to_num().abs().max()
                        < 1e-6 * made[seen].abs().max())
        is_vocabulary = head.out_features in self._sizes
        is_fault = is_moved or is_vocabulary and not bool(logits[seen].any()) or self._s.is_of_transformers and (
            multiple(logits, made) is not None or is_vocabulary and not _keeps_order(made, logits))
        if is_fault and (is_vocabulary or is_named):
            self._s.add("logits-changed", difference, where=self._s.names[head])


def _keeps_order(before: Tensor, after: Tensor) -> bool:
    """Returns whether a function keeps the order of the values of each row. It may saturate for some values."""
    steps = after.gather(-1, before.argsort(-1)).diff(dim=-1)  # infinite where a mask begins
    steps = steps[torch.isfinite(steps).any(-1)].nan_to_num(0, 0, 0)
    least = -1e-6 * after[torch.isfinite(after)].abs().max()
    return bool((steps >= least).all()) and bool((steps > 0).any(-1).all())


def _is_offset(index: Tensor, given: Tensor) -> bool:
    """Returns whether an index equals an input of the batch plus one constant."""
    if given.numel() != index.numel() or given.dtype == torch.bool or index.numel() < 2:
        return False
    difference = index.flatten().cpu() - given.flatten().cpu()
    return bool((difference == difference[0]).all())
