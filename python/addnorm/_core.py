"""The functions of the shared library, with Python's types."""

from __future__ import annotations

import json
import weakref
from typing import Any, Callable, List, Optional, Tuple, TypedDict

from ._library import Error, call, library

__all__ = ["Diagnosis", "Error", "FamilyFacts", "__version__", "arrangement", "arrangement_names", "check_accepted",
           "diagnose", "family_facts", "figure", "figures", "is_profile", "reproduce", "rule_names", "run_program",
           "study", "trace"]

__version__: str = library.addnorm_version().decode()


class FamilyFacts(TypedDict, total=False):
    """Known facts of a family of models. Unknown norms, forms of γ and ε have no key."""

    norm: str  # "rms", "layer"
    gamma_form: str  # "plain", "one_plus"
    epsilons: List[float]  # two
    has_scaled_scores: bool
    has_scaled_projections: bool
    has_normalized_stream: bool
    has_router_gradient: bool


class Diagnosis:
    """The doctor's findings in a profile, kept by the library."""

    def __init__(self, profile: str, name: str) -> None:
        self._own(call("open_profile", profile, name))

    def _own(self, number: str) -> None:
        self._number = int(number)
        self._summary: dict[str, Any] = {}
        weakref.finalize(self, call, "release", self._number)

    @classmethod
    def _numbered(cls, number: str) -> Diagnosis:
        diagnosis = cls.__new__(cls)
        diagnosis._own(number)
        return diagnosis

    def accepting(self, accepted: List[str]) -> Diagnosis:
        """Returns the diagnosis without the findings that these names accept."""
        return self._numbered(call("accepting", self._number, accepted))

    def profile(self) -> str:
        return call("profile", self._number)

    def _summarized(self, key: str) -> Any:
        if not self._summary:
            self._summary = json.loads(call("summary", self._number))
        return self._summary[key]

    @property
    def sound(self) -> bool:
        return bool(self._summarized("sound"))

    @property
    def verdict(self) -> str:
        return str(self._summarized("verdict"))

    def groups(self) -> List[Tuple[int, str]]:
        """Returns the index of the worst finding and all places, for each group of findings in the text."""
        return [(worst, places) for worst, places in self._summarized("groups")]

    def text(self, width: int, in_color: bool, other: Optional[Diagnosis]) -> str:
        return call("text", self._number, width, in_color, _number(other))

    def json(self, other: Optional[Diagnosis]) -> str:
        return call("json", self._number, _number(other))

    def html(self, other: Optional[Diagnosis]) -> str:
        return call("html", self._number, _number(other))


def _number(diagnosis: Optional[Diagnosis]) -> Optional[int]:
    return None if diagnosis is None else diagnosis._number


def _latin_1(path: bytes) -> str:
    """Returns bytes, which need not be UTF-8, as text for bytes_of() in python/call.h."""
    return path.decode("latin-1")


def diagnose(target: bytes) -> Diagnosis:
    """Returns the diagnosis of a target of `addnorm doctor`."""
    return Diagnosis._numbered(call("open_target", _latin_1(target)))


def is_profile(path: bytes) -> bool:
    return bool(json.loads(call("is_profile", _latin_1(path))))


def family_facts(model_type: str) -> FamilyFacts:
    facts: FamilyFacts = json.loads(call("family_facts", model_type))
    return facts


def check_accepted(names: List[str]) -> None:
    call("check_accepted", names)


def rule_names() -> List[str]:
    names: List[str] = json.loads(call("rule_names"))
    return names


def run_program(called: bytes, arguments: List[bytes]) -> int:
    """Runs the program `addnorm`, and returns its exit status."""
    return int(call("run_program", _latin_1(called), list(map(_latin_1, arguments))))


def arrangement(placement: str, layers: int, lanes: int, d_model: int) -> str:
    """Returns a placement, evaluated at these sizes. If `lanes` is 0, it is the placement's own number."""
    return call("arrangement", placement, layers, lanes, d_model)


def arrangement_names() -> str:
    return call("arrangement_names")


def trace(norm: Tuple[Any, ...], x: List[List[float]], branch: List[float], gamma: List[float], beta: List[float],
          placement: str, layers: int, layer: int, sublayer: str, lanes: int) -> str:
    """0 and "" stand for the defaults."""
    return call("trace", norm, x, branch, gamma, beta, placement, layers, layer, sublayer, lanes)


def reproduce(seed: int) -> str:
    return call("reproduce", seed)


def figures() -> str:
    return call("figures")


def figure(name: str, options: str, text: str) -> str:
    return call("figure", name, options, text)


def study(text: str, placements: List[str], seeds: int, settings: str,
          progress: Optional[Callable[[int, int], object]]) -> str:
    return call("study", text, placements, seeds, settings, progress=progress)
