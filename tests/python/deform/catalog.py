"""The form of an operator, and the list that the operators add themselves to.

Names, categories, causes and values are those of DEForm's catalog (Jahan et al., arXiv 2604.28118). The functions
are written anew. Twelve injectors of the published package change no number of a model (FRG, KFT, KMC, KMD, KSB,
NWD, PSI, PTL, QHD, RDR, RGC, SDS); here each does what the catalog says of it.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, Callable

from .parts import Target


class NotApplicable(Exception):
    """The reason why a model has nothing that the operator could change."""


class Scope(enum.Enum):
    """The cases in which one model, without a sound twin beside it, shows the damage."""

    ALWAYS = "yes"
    UNLIKE = "fresh, or in one layer"
    """It shows against the initial values that the configuration declares, or against the other layers."""
    FRESH = "fresh"
    """It shows against the initial values that the configuration declares."""
    NEVER = "no"

    def holds(self, state: str, spread: str) -> bool:
        return self is Scope.ALWAYS or self in (Scope.FRESH, Scope.UNLIKE) and state == "fresh" \
            or self is Scope.UNLIKE and spread == "one"


Values = tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Operator:
    code: str
    category: str
    cause: str
    action: Callable[[Target, Any], None]
    values: Values
    """The values from low to high severity, as the catalog has them; (None,) if there is nothing to choose."""
    scope: Scope
    scopes: dict[Any, Scope]
    """The scopes of values that have another one."""
    why: str
    """The reason why some or all cases are out of scope."""
    sight: str
    """The measurement that shows the damage."""
    rules: tuple[str, ...]
    """Rules of the doctor that name the damage."""
    kind: str
    """The models that it is for: "encoder", "decoder" or "both"."""
    in_layers: bool
    """Whether it can damage one layer."""

    @property
    def sentence(self) -> str:
        return " ".join(str(self.action.__doc__).split())

    def scope_of(self, value: Any) -> Scope:
        return self.scopes.get(value, self.scope)

    def fits(self, kind: str) -> bool:
        return self.kind in ("both", kind)


OPERATORS: dict[str, Operator] = {}


def operator(code: str, category: str, cause: str, *, values: Values = (None,), scope: Scope = Scope.ALWAYS,
             scopes: dict[Any, Scope] | None = None, why: str = "", sight: str = "", rules: str = "",
             kind: str = "both", in_layers: bool = True) -> Callable[[Any], Any]:
    """Adds the function that follows as an operator; its docstring says what it does."""
    def add(action: Callable[[Target, Any], None]) -> Callable[[Target, Any], None]:
        OPERATORS[code] = Operator(code, category, cause, action, values, scope, scopes or {}, why, sight,
                                   tuple(rules.split()), kind, in_layers)
        return action
    return add


# Words in the name of a place, by category; a finding in the damaged layer must have one of them.
PLACES = {
    "masking": "attention attn", "qkv": "attention attn", "score": "attention attn", "kernel": "attention attn",
    "variant": "attention attn", "ffn": "feed-forward mlp ffn intermediate output.dense lin1 lin2",
    "layernorm": "", "residual": "", "embedding": "word_embeddings wte token_type embeddings",
    "positional": "position wpe", "output": "head classifier output", "kv_cache": "cache past_key_values",
}
