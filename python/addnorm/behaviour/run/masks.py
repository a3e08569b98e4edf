"""The padding mask of a batch."""

from __future__ import annotations

from torch import Tensor

from .subject import Subject

KEPT = ("attention_mask",)  # masks that are 1 at tokens
HIDDEN = ("src_key_padding_mask", "key_padding_mask", "padding_mask")  # masks that are True at padding


def padding_mask(subject: Subject) -> tuple[str, Tensor] | None:
    """Returns the name of the padding mask, and a mask that is true at tokens; None if there is none."""
    for name in (*KEPT, *HIDDEN):
        mask = subject.named.get(name)
        if isinstance(mask, Tensor) and mask.dim() == 2 and not mask.is_floating_point():
            return name, mask.bool() if name in KEPT else ~mask.bool()
    return None
