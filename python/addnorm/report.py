"""The doctor's report on a profile: findings, coverage, and their output formats."""

from __future__ import annotations

import dataclasses
import html
import json
import os
import shutil
import sys
from typing import Any, Iterable, Iterator, Literal, Mapping, Union

from . import _core
from ._left_out import LeftOut

Path = Union[str, "os.PathLike[str]"]

# The fields of a line of a profile that numbers() returns, by the line's point.
_LOGGED = {"x": ("rms", "grad_rms"), "branch": ("rms", "grad_rms"), "sum": ("rms", "grad_rms"),
           "output": ("rms", "grad_rms"), "scores": ("abs_max", "entropy"), "gamma": ("rms",)}


@dataclasses.dataclass(frozen=True)
class Finding:
    """One finding of a Report; docs/doctor.md describes each rule.

    severity: "broken", the network does not compute what it declares; "suspicious", sound networks do
    not show it; "note", no defect.
    """

    rule: str
    severity: Literal["broken", "suspicious", "note"]
    where: str
    """The place: "layer 2, attention"."""
    seen: str
    expected: str
    fix: str
    layer: int | None = None
    sublayer: str | None = None
    module: str | None = None
    """The layer's name in the code: "encoder.layer.3"."""
    leads_to: tuple[str, ...] = ()
    """Consequences that are not separate findings: "gradient-missing, layers.2.attn"."""

    @property
    def name(self) -> str:
        """The rule and its place, in the form of `ignore` and baselines: "residual-missing@layer 2, attention"."""
        return f"{self.rule}@{self.where}"

    def __str__(self) -> str:
        return f"{self.rule} at {self.where}: {self.seen}. Expected: {self.expected}. Fix: {self.fix}"


@dataclasses.dataclass(frozen=True)
class Coverage:
    """The part of a model's computation that was measured. str() gives it as one line."""

    counts: dict[str, tuple[int, int]]
    """The numbers of measured and seen items by kind: {"sums": (24, 24), …}."""
    left_out: list[LeftOut]
    """Pairs (where, why) for everything that was not measured."""

    @property
    def least(self) -> float:
        """The least measured share of any kind; 1 if nothing was seen or counted."""
        return min((measured / seen for measured, seen in self.counts.values() if seen), default=1.0)

    def __str__(self) -> str:
        if not self.counts:
            return "unknown"
        counts = ", ".join(f"{measured} of {seen} {what}" for what, (measured, seen) in self.counts.items())
        return f"{counts} measured"


class Report:
    """The doctor's findings in a profile, by the rules and in the words of `addnorm doctor`.

    profile is the text of a profile (JSON lines); name is the name of the model or file. accepted has the findings to
    leave out, each a rule, or a rule at a place: "residual-missing@layer 2". Raises Error if the text is not a profile,
    or a name is not that of a rule.

        report = addnorm.Report.read("profile.jsonl")
        print(report)
    """

    def __init__(self, profile: str, name: str = "profile", accepted: Iterable[str] = ()) -> None:
        accepted = names_of(accepted)
        self._set(_core.Diagnosis(profile, name), profile, name, accepted)

    def _set(self, subject: _core.Diagnosis, profile: str, name: str, accepted: tuple[str, ...]) -> None:
        self.profile = profile
        self.name = name
        self.accepted = accepted
        self._diagnosis = subject.accepting(list(self.accepted))
        document = json.loads(self._diagnosis.json(None))
        self.findings = [_finding(finding) for finding in document["findings"]]
        self.coverage = _coverage(document["coverage"] or {})

    @classmethod
    def read(cls, target: Path, accepted: Iterable[str] = ()) -> Report:
        """Reads a profile, or diagnoses another target of `addnorm doctor`.

        A target is a profile; a run of `addnorm train`, or a JSON file of its settings; or a model: a folder with
        config.json and .safetensors files, one such file in it, or a .gguf file. A model, or a run with a checkpoint,
        is run forward and backward.

        Raises Error for any other target, and FileNotFoundError if the file or folder does not exist.
        """
        accepted = names_of(accepted)
        os.stat(target)
        path = os.fsencode(target)
        if _core.is_profile(path):
            with open(target, encoding="utf-8") as profile:
                return cls(profile.read(), os.fspath(target), accepted)
        report = cls.__new__(cls)
        subject = _core.diagnose(path)
        report._set(subject, subject.profile(), os.fspath(target), accepted)
        return report

    @property
    def sound(self) -> bool:
        """Whether something was measured, and there are no findings other than notes."""
        return self._diagnosis.sound

    @property
    def verdict(self) -> str:
        """The result as one line: "9 findings of 2 rules, 1 note". A finding is a rule at one place."""
        return self._diagnosis.verdict

    def grouped(self) -> list[Finding]:
        """Returns the findings as the text groups them. Findings of one rule with one fix become one, the most severe.
        Its `where` names all places: "layers 0 to 3, feed-forward"."""
        return [dataclasses.replace(self.findings[worst], where=places)
                for worst, places in self._diagnosis.groups()]

    # -- Output --

    def text(self, width: int | None = None, color: bool | None = None,
             against: Report | None = None) -> str:
        """Formats the report for a terminal. width and color default to those of standard
        output; NO_COLOR disables colour.

        against: a report of the same network before a change, or of the original of a ported model.
        """
        if color is None:
            color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        width = shutil.get_terminal_size().columns if width is None else width
        if against is None:
            return self._diagnosis.text(width, color, None)
        return against._diagnosis.text(width, color, self._diagnosis)

    def json(self, file: Path | None = None, against: Report | None = None) -> str:
        """Returns the document of `addnorm doctor --json`. Also writes it to the file if one is given."""
        return _written(_reported("json", self, against), file)

    def html(self, file: Path | None = None, against: Report | None = None) -> str:
        """Returns a self-contained page with curves. Also writes it to the file if one is given."""
        return _written(_reported("html", self, against), file)

    def __str__(self) -> str:
        return self.text().rstrip("\n")

    def __repr__(self) -> str:
        return f"<addnorm.Report of {self.name}: {self.verdict}; coverage: {self.coverage}>"

    def _repr_html_(self) -> str:
        """Returns the page in a frame for a notebook, so that their styles are separate."""
        return (f'<iframe srcdoc="{html.escape(self.html())}" title="{html.escape(self.name)}" '
                'style="width:100%;height:36rem;border:0;resize:vertical;overflow:auto"></iframe>')

    def numbers(self) -> dict[str, float]:
        """Returns the numbers of the last step for loggers: {"addnorm/layer 3/attention/sum_rms": 1.7, …}.
        "addnorm/broken" and "addnorm/suspicious" count the findings."""
        lines = [json.loads(line) for line in self.profile.splitlines()[1:]]
        last = max((line.get("step", 0) for line in lines), default=0)
        numbers = dict(_logged(line for line in lines if line.get("step", 0) == last))
        for severity in "broken", "suspicious":
            found = sum(finding.severity == severity for finding in self.findings)
            numbers[f"addnorm/{severity}"] = float(found)
        return numbers

    # -- Assertions --

    def ignoring(self, *names: str, baseline: Path | None = None) -> Report:
        """Returns the report without these findings, and without those in a file of save_baseline().
        Raises Error for a name that is not that of a rule. Unknown names in a baseline are skipped,
        because it may be older than the rules."""
        known = [] if baseline is None else read_baseline(baseline).get(self.name, [])
        report = Report.__new__(Report)
        report._set(self._diagnosis, self.profile, self.name, (*self.accepted, *names_of(names), *known))
        return report

    def assert_sound(self, ignore: Iterable[str] = (), baseline: Path | None = None,
                     min_coverage: float = 1.0) -> None:
        """Raises an AssertionError if there are findings that are neither notes, nor ignored, nor in the baseline, or
        if less was measured than min_coverage.

        baseline: a file of save_baseline(). min_coverage: the least measured share, from 0 to 1, of the sums, norms,
        attentions and gradients seen in the model. A profile without a coverage has no share to compare.
        """
        __tracebackhide__ = True
        if not 0 <= min_coverage <= 1:
            raise _core.Error(f"min_coverage: is {min_coverage!r}, must be a number from 0 to 1")
        rest = self.ignoring(*names_of(ignore), baseline=baseline)
        if not rest.sound:
            raise AssertionError(rest.text(80, False).rstrip("\n"))
        if self.coverage.least < min_coverage:
            places = "; ".join(f"{where}: {why}" for where, why in self.coverage.left_out) or "no reason is known"
            raise AssertionError(f"{self.name}: no finding, but only {self.coverage}. Not measured: {places}. "
                                 "If this is expected, pass a smaller min_coverage than "
                                 f"{min_coverage:g} to assert_sound()")

    def save_baseline(self, file: Path) -> None:
        """Writes the findings of this model as accepted. Those of other models in the file are kept."""
        update_baseline(file, {self.name: self.names()})

    def names(self) -> set[str]:
        """Returns the names of the findings that are not notes."""
        return {finding.name for finding in self.findings if finding.severity != "note"}


def names_of(ignore: Iterable[str]) -> tuple[str, ...]:
    """Returns the names of findings to leave out. Raises Error if one is neither a rule nor a rule at a place."""
    names = (ignore,) if isinstance(ignore, str) else tuple(ignore)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f'ignore: has a {type(name).__name__}, must have names such as "residual-missing" or '
                            '"residual-missing@layer 2"')
    try:
        _core.check_accepted(list(names))
    except _core.Error as error:
        raise _core.Error(f"ignore: {error}") from None
    return names


def _finding(document: dict[str, Any]) -> Finding:
    keys = {"seen": "what", "expected": "because"}
    values: dict[str, Any] = {field.name: document[keys.get(field.name, field.name)]
                              for field in dataclasses.fields(Finding)}
    values["leads_to"] = tuple(values["leads_to"])
    return Finding(**values)


def _coverage(document: dict[str, Any]) -> Coverage:
    left_out = [LeftOut(part["where"], part["why"]) for part in document.get("left_out", ())]
    counts = {what: (pair[0], pair[1]) for what, pair in document.items() if what != "left_out"}
    return Coverage(counts, left_out)


def _logged(lines: Iterable[dict[str, Any]]) -> Iterator[tuple[str, float]]:
    for line in lines:
        place = f"layer {line['layer']}/" if "layer" in line else ""
        norm = f"{line['norm']}_" if "norm" in line else ""
        for key in _LOGGED.get(line.get("point", ""), ()):
            if isinstance(line.get(key), (int, float)):
                yield f"addnorm/{place}{line['sublayer']}/{norm}{line['point']}_{key}", float(line[key])


def _reported(form: str, report: Report, against: Report | None) -> str:
    first, second = (report, None) if against is None else (against, report._diagnosis)
    text: str = getattr(first._diagnosis, form)(second)
    return text


def _written(text: str, file: Path | None) -> str:
    """Writes the text to the file, completely or not at all, and returns it."""
    if file is not None:
        unfinished = f"{os.fspath(file)}.{os.getpid()}"
        with open(unfinished, "w", encoding="utf-8") as out:
            out.write(text)
        os.replace(unfinished, file)
    return text


def read_baseline(file: Path) -> dict[str, list[str]]:
    """Returns the names of findings by model, from a file of Report.save_baseline()."""
    try:
        with open(file, encoding="utf-8") as text:
            models: dict[str, list[str]] = json.load(text)["models"]
        return {model: list(names) for model, names in models.items()}
    except FileNotFoundError:
        raise _core.Error(f"{os.fspath(file)}: does not exist; Report.save_baseline() writes a "
                          "baseline") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _core.Error(f"{os.fspath(file)}: is no baseline, which Report.save_baseline() "
                          "writes") from None


def update_baseline(file: Path, found: Mapping[str, Iterable[str]]) -> None:
    """Writes the names of findings by model. Other models in the file are kept."""
    models = read_baseline(file) if os.path.exists(file) else {}
    models.update({model: sorted(names) for model, names in found.items()})
    document = {"addnorm_baseline": 1, "models": dict(sorted(models.items()))}
    _written(json.dumps(document, indent=1, ensure_ascii=False) + "\n", file)
