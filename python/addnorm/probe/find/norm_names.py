"""Recognizes norms and their parameters by their names."""

from __future__ import annotations

import re
from typing import Optional

from torch import nn

from ..._structure import is_norm_class, may_normalize_rows

NORM_NAME = re.compile(r"norm|^ln|_ln$", re.I)
# Names of a norm's attributes γ and β.
GAMMAS = "weight", "gamma", "scale", "g"
BETAS = "bias", "beta", "b"

# A norm inside attention, by the parts of its name: q_norm, key_layernorm, kv_a_layernorm.
ATTENTION_NORMS = {"query": r"q|query|queries", "key": r"k|key|keys|kv", "value": r"v|value|values"}

# Classes that squash each value instead of normalizing rows, by the doctor's name for them.
SQUASHING = {"dyt": r"dyt|dynamic_?tanh", "derf": r"derf|dynamic_?erf"}


def is_norm(name: str, module: nn.Module) -> bool:
    """Whether a module normalizes rows, or squashes values instead, by the name of its class or its own name."""
    has_name = NORM_NAME.search(name.rpartition(".")[2]) is not None
    return is_norm_class(module) or may_normalize_rows(module) and (
        squashing(module) is not None or has_name and any(True for _ in module.parameters()))


def squashing(module: Optional[nn.Module]) -> Optional[str]:
    """Returns "dyt" or "derf" for a module of SQUASHING, or None."""
    name = type(module).__name__
    return next((k for k, names in SQUASHING.items() if re.fullmatch(names, name, re.I)), None)


def is_of_other_axes(module: Optional[nn.Module]) -> bool:
    """Whether the name of a norm's class says that its statistics are not those of rows."""
    return re.search("batch|group|instance", type(module).__name__, re.I) is not None


def norm_kind(module: Optional[nn.Module]) -> Optional[str]:
    """Returns the kind of norm that the name of a module's class declares: "layer", "rms", "dyt", "derf" or None."""
    name = type(module).__name__
    if is_of_other_axes(module):
        return None
    if re.search(r"rms|T5.*Norm", name, re.I):  # T5LayerNorm is an RMSNorm
        return "rms"
    return squashing(module) or ("layer" if "layernorm" in name.lower() else None)


def norm_of_attention(name: str) -> Optional[str]:
    """Returns "query", "key" or "value" for the name of a norm of these, or None."""
    parts = name.rpartition(".")[2].lower().split("_")
    return next((what for what, names in ATTENTION_NORMS.items()
                 if any(re.fullmatch(names, part) for part in parts)), None)
