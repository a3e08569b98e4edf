"""Parameters whose gradient is exactly 0, or negligible relative to that of their counterparts in other layers."""

from __future__ import annotations

import statistics
from collections import defaultdict
from typing import Iterator

import torch
from torch import nn

from ..._sharded import local_part
from ..._structure import is_within
from ...torch.mixes import Mix
from ..run.experts import is_router_of_one
from ..run.gradients import Gradients
from ..run.starts import Starts
from ..run.subject import Subject, changed_parameters, cover, owner_of

# A gradient below this share of the median over counterparts, or over all matrices, is lost. It is four roundings in
# float32. A gradient that is 0 by its formula, such as that of a weight divided by itself, is about one rounding.
LOST = 4 * torch.finfo(torch.float32).eps
MOST_ROUNDS = 3  # zero heads hide gradients of zero output projections, which hide those of their branches


def measure_zero(subject: Subject, gradients: Gradients, starts: Starts) -> None:
    """Adds gradient-zero. If there is such a parameter, it runs up to three forwards and backwards. A gradient that is
    lost but not 0 is no fault in the first and the last layer, parts of which a network may not need."""
    sizes = {name: size for name, size in gradients.sizes.items()
             if size is not None and not _has_no_rows(subject, gradients, name)}
    if sizes and not any(sizes.values()):
        subject.add_line("gradient-zero", sum(subject.parameters[n].numel() for n in sizes), where="model",
                         detail="exactly 0", declared="no other parameter gets one")
        return
    groups: dict[str, list[str]] = defaultdict(list)
    for name in sizes:
        groups[subject.of_all_layers(name)].append(name)
    inner = [names[1:-1] if len(names) > 2 else names for names in groups.values()]
    judged = {name for names in inner for name in names}
    small = {name: "exactly 0" for name, size in sizes.items()
             if size == 0 and (name in judged or subject.parameters[name].dim() > 1)}
    matrices = [name for names in inner for name in names if subject.parameters[name].dim() > 1]
    for name, share in _lost(matrices, sizes):
        small[name] = f"{share:.1g} of that of other matrices"
    for names in inner:
        for name, share in _lost(names, sizes):
            small[name] = f"{share:.1g} of that of its counterparts in other layers"
    small = _without_excused(subject, gradients, small)
    if small:
        idle = starts.idle()
        small = {n: words for n, words in small.items()
                 if not any(is_within(n, place) for place in idle) and not is_router_of_one(subject, n)
                 and not _is_mix_of_one(subject, n)}
    for place in cover(subject, small, small):
        names = [n for n in small if n == place or n.startswith(place + ".")]
        subject.add_line("gradient-zero", sum(subject.parameters[n].numel() for n in names), where=place,
                         detail=small[names[0]])


def _lost(names: list[str], sizes: dict[str, float]) -> Iterator[tuple[str, float]]:
    """Yields the names whose gradient is lost relative to the others, with its share of the median."""
    median = statistics.median(sizes[name] for name in names) if names else 0.0
    for name in names:
        if 0 < sizes[name] < LOST * median:
            yield name, sizes[name] / median


def _has_no_rows(subject: Subject, gradients: Gradients, name: str) -> bool:
    """Returns whether a module was called without rows, as an expert to which no token was routed. An embedding with a
    padding_idx counts, too, because it may have been called with padding alone."""
    module = owner_of(subject, name)
    is_padded = isinstance(module, nn.Embedding) and module.padding_idx is not None
    return is_padded or any(0 in shape for shape in gradients.calls.shapes.get(module, ()))


def _is_mix_of_one(subject: Subject, name: str) -> bool:
    """Returns whether a parameter belongs to a mix of addnorm.torch.Stack whose only weight is always 1."""
    owner = owner_of(subject, name)
    return isinstance(owner, Mix) and owner.is_constant


def _without_excused(subject: Subject, gradients: Gradients, small: dict[str, str]) -> dict[str, str]:
    """Omits the parameters that get a gradient in evaluation, or after parameters of zeros were changed to small
    values. In training, a layer may have been dropped at random. LoRA and adaLN-Zero begin with one matrix of zeros. It
    has a gradient itself, and the others get one after the first step."""
    later, zeros = gradients, set[str]()
    with changed_parameters() as save:
        for _ in range(MOST_ROUNDS if small else 0):
            new = {n for n, p in gradients.trained.items()
                   if n not in zeros and later.sizes[n] and not local_part(p).any()}
            generator = torch.Generator().manual_seed(3)
            for name in new:
                values = save(gradients.trained[name])
                values.copy_(0.02 * torch.randn(values.shape, generator=generator))
            zeros |= new
            later = Gradients(subject, evaluate=True)
            usual = statistics.median([size for size in later.sizes.values() if size] or [0.0])
            small = {name: words for name, words in small.items() if (later.sizes[name] or 0.0) <= LOST * usual}
            if not small or not new:
                break
    return small
