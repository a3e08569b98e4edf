"""The lines of a profile."""

from __future__ import annotations

import json
import math
from typing import Any, Dict, List, NamedTuple, Optional

from ..fit.batch import Numbers


class Site(NamedTuple):
    """The key of a line of the profile: its step, layer, sublayer and point."""
    step: int
    layer: Optional[int]
    sublayer: str
    point: str
    norm: Optional[str] = None
    weight: Optional[str] = None
    lane: Optional[int] = None  # the lane of a sum, if the stream has several; None for the first


def profile_text(header: Dict[str, Any], entries: Dict[Site, Numbers], digits: int) -> str:
    """Returns the profile as JSON lines. A line with a value that is not finite omits it and has "finite": false."""
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
