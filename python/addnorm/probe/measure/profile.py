"""The lines of a profile."""

from __future__ import annotations

import json
import math
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ..fit.batch import Numbers


class Site(NamedTuple):
    """Where a line of the profile belongs."""
    step: int
    layer: Optional[int]
    sublayer: str
    point: str
    norm: Optional[str] = None
    weight: Optional[str] = None
    lane: Optional[int] = None  # of a sum, where the stream has several; None is the first


class SeenSublayer(NamedTuple):
    """Which norms a sublayer has."""
    kind: str
    layer: int
    layer_module: str
    place: int  # among those of its layer's module
    norms: List[Tuple[str, str]]  # (slot, name in the layer)
    has_own_slots: bool


def profile_text(header: Dict[str, Any], entries: Dict[Site, Numbers], digits: int) -> str:
    """As JSON lines; what is not finite is said to be so, and has no number."""
    lines: List[Any] = [{"addnorm_profile": 1, "model": header}]
    for site, numbers in entries.items():
        line = {key: v for key, v in site._asdict().items() if v is not None}
        for key, value in numbers.items():
            if not isinstance(value, float):
                line[key] = value
            elif math.isfinite(value):
                line[key] = float(f"{value:.{digits}g}")
            else:
                line["finite"] = False
        lines.append(line)
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
