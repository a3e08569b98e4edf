"""Judges the lines of a run: which damage was detected, which was named, and precision, recall and F1.

A damaged model is detected if the doctor reports a finding, worse than a note, that it does not report of the
sound twin. It is named if such a finding has a rule of the operator, or the place of the damage. As in the paper,
there are as many sound models as damaged ones: the share of accused sound models stands for the false positives.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Callable, Iterable

from .models import FAMILIES
from .operators import OPERATORS, PLACES, Operator

Line = dict[str, Any]

# The paper's Table 2: killed mutants by category, of encoders and of decoders.
PAPER_COUNTS = {
    "encoder": {"variant": 25, "score": 269, "qkv": 237, "positional": 166, "ffn": 254, "residual": 114,
                "layernorm": 181, "embedding": 147, "output": 113, "masking": 41, "kernel": 51},
    "decoder": {"variant": 23, "score": 40, "qkv": 78, "positional": 137, "ffn": 190, "residual": 112,
                "layernorm": 159, "embedding": 144, "output": 74, "masking": 137, "kernel": 68, "kv_cache": 18},
}
# The paper's Table 6a: F1, precision and recall of its own detector.
PAPER_SCORES = {"encoder": (0.8259, 0.8014, 0.8520), "decoder": (0.9094, 0.9125, 0.9064)}


@dataclasses.dataclass(frozen=True)
class Case:
    """A damaged model that was checked."""

    line: Line
    operator: Operator
    fired: frozenset[tuple[str, str]]
    """Rule and place of the findings that the sound twin lacks."""
    noted: frozenset[str]
    """Rules of such notes."""

    @property
    def kind(self) -> str:
        return FAMILIES[self.line["model"]].kind

    @property
    def in_scope(self) -> bool:
        return self.operator.scope_of(self.line["value"]).holds(self.line["state"], self.line["spread"])

    @property
    def is_detected(self) -> bool:
        return bool(self.fired)

    @property
    def is_named(self) -> bool:
        return any(rule in self.operator.rules or self._is_here(where) for rule, where in self.fired)

    def _is_here(self, where: str) -> bool:
        """Whether a finding's place is the damaged part; if all layers are damaged, a layer is no place."""
        words, layer = PLACES[self.operator.category].split(), self.line["layer"]
        has_word = not words or any(word in where for word in words)
        if self.line["spread"] == "whole":
            return has_word
        return self.line["spread"] == "one" and has_word and \
            bool(re.search(rf"layers? {layer}\b|\.{layer}\.|\.{layer}$", where))


@dataclasses.dataclass(frozen=True)
class Score:
    found: int
    count: int
    accused: float
    """The share of sound models that were accused."""

    @property
    def recall(self) -> float:
        return self.found / self.count if self.count else 0.0

    @property
    def precision(self) -> float:
        return self.recall / (self.recall + self.accused) if self.recall + self.accused else 0.0

    @property
    def f1(self) -> float:
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def _serious(line: Line) -> frozenset[tuple[str, str]]:
    return frozenset((rule, where) for severity, rule, where, _ in line.get("findings", ()) if severity != "note")


def _notes(line: Line) -> frozenset[str]:
    return frozenset(rule for severity, rule, *_ in line.get("findings", ()) if severity == "note")


class Judged:
    def __init__(self, lines: Iterable[Line]) -> None:
        lines = list(lines)
        self.sound = [line for line in lines if line["what"] == "sound" and "findings" in line]
        self.absent = [line for line in lines if "absent" in line]
        self.failed = [line for line in lines if "error" in line]
        self.accused = [line for line in self.sound if _serious(line)]
        twins = {(line["model"], line["state"]): line for line in self.sound
                 if line["seed"] == 0 and line["batch"] == "padded" and line["mode"] == "train"}
        self.cases = []
        for line in lines:
            if line["what"] == "damaged" and "findings" in line:
                twin = twins[line["model"], line["state"]]
                self.cases.append(Case(line, OPERATORS[line["operator"]], _serious(line) - _serious(twin),
                                       _notes(line) - _notes(twin)))

    def score(self, chosen: Callable[[Case], bool] = lambda case: True,
              sound: Callable[[Line], bool] = lambda line: True, named: bool = False) -> Score:
        cases = [case for case in self.cases if chosen(case)]
        lines = [line for line in self.sound if sound(line)]
        accused = sum(bool(_serious(line)) for line in lines) / len(lines) if lines else 0.0
        return Score(sum(case.is_named if named else case.is_detected for case in cases), len(cases), accused)

    def score_of(self, kind: str = "", state: str = "", model: str = "", in_scope: bool = False,
                 named: bool = False) -> Score:
        """The score of encoders or decoders, of fresh or fitted models, of one model; of all where one is ""."""
        def fits(line: Line) -> bool:
            return (not kind or FAMILIES[line["model"]].kind == kind) and state in ("", line["state"]) \
                and model in ("", line["model"])
        return self.score(lambda case: fits(case.line) and (case.in_scope or not in_scope), fits, named)

    def weighted_recall(self, kind: str) -> float:
        """The recall if categories were as frequent as in the paper."""
        counts = PAPER_COUNTS[kind]
        recalls = {category: self.score(lambda case: case.kind == kind and case.operator.category == category)
                   for category in counts}
        return sum(counts[c] * recalls[c].recall for c in counts) / sum(counts.values())

    def missed(self) -> list[tuple[str, list[Case], list[Case]]]:
        """Each measurement, the cases in scope that it would show and that were missed, and all in scope."""
        by_sight: dict[str, list[Case]] = {}
        for case in self.cases:
            if case.in_scope:
                by_sight.setdefault(case.operator.sight, []).append(case)
        rows = [(sight, [c for c in cases if not c.is_detected], cases) for sight, cases in by_sight.items()]
        return sorted((row for row in rows if row[1]), key=lambda row: -len(row[1]))
