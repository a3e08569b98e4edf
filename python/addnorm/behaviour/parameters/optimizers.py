"""Parameters and their optimizer: not-in-optimizer, update-ratio, decay-on-gain, decay-uneven."""

from __future__ import annotations

import math
from statistics import median
from typing import Any

from ..._samples import RESOLUTION
from ..._structure import dtype_name, is_norm_class, parent_of
from ..run.experts import is_router
from ..run.structure import is_linear_map
from ..run.subject import Subject, cover
from ..run.tensors import rms
from ..run.text import some

Groups = dict[int, tuple[Any, dict[str, Any]]]  # id of a parameter → its optimizer and its group


def measure_optimizer(subject: Subject, optimizers: list[Any], sizes: dict[str, float | None]) -> None:
    """Adds the lines of one optimizer, or of several that share the parameters. `sizes` holds the RMS of gradients."""
    groups: Groups = {id(p): (optimizer, group) for optimizer in optimizers
                      for group in optimizer.param_groups for p in group["params"]}
    _measure_membership(subject, set(groups))
    _measure_updates(subject, groups, sizes)
    _measure_decay(subject, groups)
    _measure_uneven_decay(subject, groups)


def _measure_membership(subject: Subject, known: set[int]) -> None:
    trained = {n: p for n, p in subject.parameters.items() if p.requires_grad}
    absent = [n for n, p in trained.items() if id(p) not in known]
    if not trained:
        return
    strangers = len(known - {id(p) for p in subject.parameters.values()})
    present = {subject.of_all_layers(n) for n in trained if n not in absent}
    odd = [n for n in absent if subject.of_all_layers(n) in present]
    ground = f"the optimizer has {strangers} parameters that are not the model's" if strangers \
        else f"counterparts of {odd[0]} in other layers are in it" if odd else ""
    subject.add_line("not-in-optimizer", len(absent) / len(trained), limit=0,
                     where=some(cover(subject, absent, absent)) or "model", declared=ground if absent else "")


def _update_rms(optimizer: Any, group: dict[str, Any], parameter: Any, gradient: float | None) -> float | None:
    """Returns the RMS of the last step of Adam, or of its first if there is none yet; for SGD without momentum, that of
    the next step; for others, None."""
    name, state = type(optimizer).__name__, optimizer.state.get(parameter, {})
    rate = float(group["lr"])
    if name in ("Adam", "AdamW") and "exp_avg" in state:
        step, (b1, b2) = float(state["step"]), group["betas"]
        if step < 1:
            return rate
        first = state["exp_avg"].double() / (1 - b1**step)
        second = state["exp_avg_sq"].double() / (1 - b2**step)
        return rate * rms(first / (second.sqrt() + group["eps"]))
    if name in ("Adam", "AdamW"):
        return rate if gradient else None  # for a gradient of any size
    return rate * gradient if name == "SGD" and gradient else None


def _measure_updates(subject: Subject, groups: Groups, sizes: dict[str, float | None]) -> None:
    """Adds update-ratio: the median over matrices of the RMS of a step divided by the RMS of the weights. Matrices that
    start at 0 are skipped."""
    ratios, dtypes = [], []
    for name, parameter in subject.parameters.items():
        size = rms(parameter)
        if id(parameter) not in groups or parameter.dim() < 2 or size < 1e-6:
            continue
        update = _update_rms(*groups[id(parameter)], parameter, sizes.get(name))
        if update is not None and math.isfinite(update):
            ratios.append(update / size)
            dtypes.append(parameter.dtype)
    if not ratios:
        subject.leave_out("update-ratio", "the optimizer is neither Adam, AdamW nor SGD, or has no step")
        return
    dtype = max(set(dtypes), key=dtypes.count)
    subject.add_line("update-ratio", median(ratios), limit=RESOLUTION.get(dtype, 0.0), where="weights",
                     detail=dtype_name(dtype))


def _decays(subject: Subject, groups: Groups) -> dict[str, float]:
    """Returns the weight decays of the trained parameters in the optimizer."""
    return {n: float(groups[id(p)][1].get("weight_decay", 0)) for n, p in subject.parameters.items()
            if id(p) in groups and p.requires_grad}


def _measure_decay(subject: Subject, groups: Groups) -> None:
    """Adds decay-on-gain. The line has a reason if matrices have a weaker decay, or if all other vectors have none."""
    decays = _decays(subject, groups)
    gains = [n for n in decays if is_norm_class(subject.model.get_submodule(parent_of(n)))]
    decayed = [n for n in gains if decays[n] > 0]
    others, matrices = ([d for n, d in decays.items() if n not in gains and (subject.parameters[n].dim() > 1) == wide]
                        for wide in (False, True))
    if gains:
        decay = max((decays[n] for n in decayed), default=0)
        declared = f"that of the matrices is at most {max(matrices):.3g}" if matrices and decay > max(matrices) else \
            "all biases of linear maps have none" if decayed and others and not any(others) else ""
        detail = f"{len(decayed)} of {len(gains)} parameters of norms: {some(decayed)}" if decayed else ""
        subject.add_line("decay-on-gain", decay, limit=0, where="norms", detail=detail, declared=declared)


def _measure_uneven_decay(subject: Subject, groups: Groups) -> None:
    """Adds decay-uneven if weights of linear maps in layers have another weight decay than most of them. These are one
    matrix in some layers alone, or a few kinds of matrices in all layers. For routers, and for groups with another
    learning rate, another decay is a choice."""
    decays = {n: decay for n, decay in _decays(subject, groups).items()
              if subject.parameters[n].dim() == 2 and subject.layer_of(n)
              and is_linear_map(subject.model.get_submodule(parent_of(n))) and not is_router(subject, n)}
    names = list(decays)
    usual = max(sorted(set(decays.values())), key=list(decays.values()).count, default=0.0)
    rates = {float(groups[id(subject.parameters[n])][1]["lr"]) for n in names}
    odd = [n for n in names if decays[n] != usual]
    forms, odd_forms = ({subject.of_all_layers(n) for n in part} for part in (names, odd))
    is_split = any(subject.of_all_layers(n) in odd_forms for n in names if decays[n] == usual)
    if odd and len(rates) == 1 and (is_split or 2 * len(odd_forms) <= len(forms)):
        subject.add_line("decay-uneven", decays[odd[0]], limit=usual, where=some(cover(subject, odd, odd)),
                         detail=f"{len(odd)} of {len(names)} weights of linear maps")
