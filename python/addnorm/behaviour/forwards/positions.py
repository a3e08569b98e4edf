"""positions-wrong: the indices of position embeddings."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor, nn

from ..._structure import entry, tensors_in
from ..run.functions import FunctionCheck, argument
from ..run.masks import padding_mask
from ..run.subject import Subject

POSITIONS = re.compile(r"wpe|embed_positions?|(position|pos)(al)?_?(emb(ed)?(dings?)?)?s?")


class Positions(FunctionCheck):
    """Checks the indices of position embeddings in one forward."""

    checks = "positions-wrong"

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self._positions: dict[str, tuple[Tensor, nn.Embedding]] = {}
        self._padding: list[Tensor] = []  # whether tokens are padding, for each table with a padding id

    def __call__(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        running = self._subject.runs[-1].inside
        if name == "embedding" and running and isinstance(running[-1], nn.Embedding):
            place = self._subject.names[running[-1]]
            index, table = argument(args, kwargs, 0, "input").detach(), running[-1]
            if POSITIONS.fullmatch(place.rpartition(".")[2]):
                self._positions.setdefault(place, (index, table))
                return
            is_of_words = table.num_embeddings == entry(self._subject.config, "vocab_size")
            padding = entry(self._subject.config, "pad_token_id") if is_of_words else table.padding_idx
            if isinstance(padding, int):
                self._padding.append(index == padding)

    def add_lines(self) -> None:
        given = self._subject.given()
        integers = [t for t in tensors_in(given) if not t.is_floating_point()]
        for place, (index, table) in self._positions.items():
            if any("position" in key for key in given) or any(_is_offset(index, t) for t in integers):
                continue
            rows = index.reshape(-1, index.shape[-1]) if index.dim() else index.reshape(1, 1)
            for row, is_hidden in zip(rows, self._hidden(rows)):
                known = row != (-1 if table.padding_idx is None else table.padding_idx)
                if self._add_positions(place, row[known], row[known & ~is_hidden], table):
                    break

    def _hidden(self, rows: Tensor) -> Tensor:
        """Returns whether tokens are padding, by the batch's mask or by their ids."""
        mask = padding_mask(self._subject)
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
            self._subject.add_line("positions-wrong", repeated, where=place,
                                   detail="tokens of a sequence have the position of another one")
            return True
        config = self._subject.config
        longest = entry(config, "max_position_embeddings", "n_positions")
        firsts = {0, getattr(table, "offset", 0), 0 if table.padding_idx is None else table.padding_idx + 1,
                  (entry(config, "pad_token_id") or 0) + 1 if table.padding_idx is not None else 0,
                  table.num_embeddings - longest if isinstance(longest, int) else 0}
        if len(row) > 2 and bool((row.diff() == 1).all()) and int(row[0]) not in firsts:
            self._subject.add_line("positions-wrong", int(row[0]), where=place,
                                   detail=f"is the first position, and the table begins at {max(firsts)}")
            return True
        return False


def _is_offset(index: Tensor, given: Tensor) -> bool:
    """Returns whether an index equals an input of the batch plus one constant."""
    if given.numel() != index.numel() or given.dtype == torch.bool or index.numel() < 2:
        return False
    difference = index.flatten().cpu() - given.flatten().cpu()
    return bool((difference == difference[0]).all())
