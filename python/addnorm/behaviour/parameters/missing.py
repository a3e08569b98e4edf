"""Parameters without a gradient, and norms that are never called.

A missing gradient has one of three causes: the parameter's module is never called; the module's output is not used for
this loss; or it is used, and its gradient was cut off. Changing the parameter distinguishes the last two: the loss
changes only if the output is used.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Iterable

import torch
from torch import nn

from ..._structure import is_norm_class, is_within, parent_of, tensors_in
from ..run.experts import names_expert
from ..run.gradients import Gradients
from ..run.structure import places_of
from ..run.subject import Subject, changed_parameters, cover, owner_of
from ..run.tensors import rms
from ..run.text import plural, some

MOST_TRIALS = 4  # number of forwards with other values in parameters without a gradient


def measure_missing(subject: Subject, gradients: Gradients) -> None:
    """Adds gradient-missing, parameter-unused, norm-unused, norm-shared, gamma-ignored."""
    owners = {name: owner_of(subject, name) for name in gradients.trained if name in gradients.missing}
    uncalled = [n for n, owner in owners.items() if not subject.is_called(owner)]
    dead = _dead_modules(subject, gradients, uncalled)
    twins = measure_shared_norms(subject, dead)
    for place in dead:
        if place not in twins:
            _add_dead(subject, gradients, place, dead)
    called = [n for n, owner in owners.items() if gradients.calls.count[owner]
              and not any(is_within(n, place) for place in dead)]
    gains = []
    for name in filter(lambda n: is_norm_class(owners[n]), called):
        with subject.part(name):
            gains += [name] if _is_ignored(subject, owners[name], name) else []
    for name in gains:
        subject.add_line("gamma-ignored", subject.parameters[name].numel(), where=name)
    _try_values(subject, gradients, [n for n in called if n not in gains])


def _dead_modules(subject: Subject, gradients: Gradients, names: list[str]) -> list[str]:
    """Returns the outermost modules in which nothing is called and nothing has a gradient."""
    called = (name for module, name in subject.names.items() if subject.is_called(module))
    alive = {place for name in (*called, *(gradients.trained.keys() - gradients.missing)) for place in places_of(name)}
    return list(dict.fromkeys([place for place in places_of(name) if place not in alive][-1] for name in names))


def _nearest_called(subject: Subject, name: str) -> str:
    name = parent_of(name)
    while name and not subject.is_called(subject.model.get_submodule(name)):
        name = parent_of(name)
    return name


def _add_dead(subject: Subject, gradients: Gradients, place: str, dead: list[str]) -> None:
    module = subject.model.get_submodule(place) if place not in subject.parameters else None
    values = sum(p.numel() for n, p in gradients.trained.items() if is_within(n, place))
    around = _nearest_called(subject, place)
    if module is not None and is_norm_class(module):
        beside = [d for d in dead if d != place and _nearest_called(subject, d) == around
                  and (d in subject.parameters or not is_norm_class(subject.model.get_submodule(d)))]
        is_used = any(is_within(n, around) for n in gradients.trained if n not in gradients.missing)
        if is_used and not beside:  # otherwise it belongs to a branch of the code that did not run
            subject.add_line("norm-unused", values, where=place, detail=f"{around or 'the model'} runs")
            return
    subject.add_line("parameter-unused", values, where=place, detail="it is never called",
                     declared=_siblings(subject, place))


def _siblings(subject: Subject, place: str) -> str:
    """Returns a text that names the called layers of the same list and class, or an empty text. Most of the layers must
    be called, all with the same shapes. Others may be experts, of which a router calls some."""
    if place in subject.parameters or not place.rpartition(".")[2].isdigit():
        return ""
    module, holder = subject.model.get_submodule(place), subject.model.get_submodule(parent_of(place))
    alike = [m for m in holder.children() if type(m) is type(module)]
    called = [m for m in alike if subject.is_called(m)]
    shapes = {shape for m in called for shape in subject.runs[0].shapes.get(m, ())}
    routed = len(shapes) > 1 or any(len(shape) < 3 for shape in shapes) or names_expert(place)
    if routed or 2 * len(called) <= len(alike):  # may be one of several heads
        return ""
    return f"{some(subject.names[m] for m in called)} {'is' if len(called) == 1 else 'are'} called"


def measure_shared_norms(subject: Subject, dead: list[str]) -> set[str]:
    """Adds norm-shared for norms that are used at several places with one γ. Returns the uncalled norms beside them,
    each of which was probably meant for one of the places."""
    twins: set[str] = set()
    aliases = Counter(child for module in subject.model.modules() for child in module._modules.values()
                      if child is not None and is_norm_class(child))
    for norm, name in subject.names.items():
        if not is_norm_class(norm) or not any(True for _ in norm.parameters()):
            continue
        around = subject.model.get_submodule(_nearest_called(subject, name))
        often = max(run.count[norm] / max(1, run.count[around]) for run in subject.runs)
        if often <= 1:
            continue
        twin = next((d for d in dead if d not in subject.parameters and d not in twins
                     and _nearest_called(subject, d) == subject.names[around]
                     and type(subject.model.get_submodule(d)) is type(norm)), None)
        declared = f"{twin} is never called" if twin else \
            f"it has {aliases[norm]} names in the model" if aliases[norm] > 1 else ""
        twins |= {twin} if twin else set()
        subject.add_line("norm-shared", often, limit=1, where=name, declared=declared)
    return twins


def _is_ignored(subject: Subject, norm: nn.Module, parameter: str) -> bool:
    """Returns whether a called norm has the same output without this parameter."""
    shape = subject.runs[0].shapes.get(norm) or subject.runs[-1].shapes.get(norm)
    if not shape:
        return False
    value = subject.parameters[parameter]
    with torch.enable_grad():
        x = torch.randn(shape[0], dtype=value.dtype, device=value.device)
        y = next(tensors_in(norm.forward(x)))
    if y.requires_grad and torch.autograd.grad(y.sum(), value, allow_unused=True)[0] is not None:
        return False
    with changed_parameters() as save, torch.no_grad():  # it may be used in code without gradients
        save(value)
        value.data.add_(1)
        return torch.equal(y.detach(), next(tensors_in(norm.forward(x))))


def _try_values(subject: Subject, gradients: Gradients, names: list[str]) -> None:
    """Changes parameters without a gradient, and measures whether the loss changes."""
    groups: dict[str, list[str]] = defaultdict(list)
    order = _order(subject, gradients)
    for name in sorted(names, key=lambda n: -order.get(parent_of(n), -1)):  # the cut is after the last module
        groups[subject.of_all_layers(parent_of(name))].append(name)
    matter: list[str] = []
    unused: list[str] = []
    least = 1e-6 * abs(gradients.loss)
    noise = abs(_loss_with_others(subject, gradients, []) - gradients.loss) if groups else 0
    for group in list(groups.values())[:MOST_TRIALS]:
        changed = _loss_with_others(subject, gradients, group)
        if abs(changed - gradients.loss) > max(least, 10 * noise):
            matter.extend(group)
        elif noise <= least:
            unused.extend(group)
        else:
            subject.leave_out("gradient-missing", f"{group[0]}: the loss of the same batch differs from run to run")
    for group in list(groups.values())[MOST_TRIALS:]:
        if not any(subject.layer_of(n) == subject.layer_of(m) for n in group for m in matter):
            subject.leave_out("gradient-missing", f"{plural(len(group), 'parameter')} as {group[0]}: too many "
                                        "without a gradient to try them all")
    for place in cover(subject, unused, gradients.missing):
        subject.add_line("parameter-unused", sum(subject.parameters[n].numel() for n in unused if is_within(n, place)),
                         where=place, detail="the loss does not depend on it",
                         declared=_looked_up(subject, gradients, place))
    _add_missing(subject, gradients, matter)


def _looked_up(subject: Subject, gradients: Gradients, place: str) -> str:
    """Returns the reason why an embedding should affect the loss if the forward reads it, else an empty text."""
    module = subject.model.get_submodule(parent_of(place) if place in subject.parameters else place)
    return "its rows are looked up" if isinstance(module, nn.Embedding) and gradients.calls.count[module] else ""


def _order(subject: Subject, gradients: Gradients) -> dict[str, int]:
    """Returns the position of each module in the order of first calls."""
    return {subject.names[module]: i for i, module in enumerate(gradients.calls.count)}


def _add_missing(subject: Subject, gradients: Gradients, names: list[str]) -> None:
    """Adds one gradient-missing per layer, at the module that was called last. The gradient was cut off after it, so
    the modules before it in the layer have none either. Adds a single line if nothing that was called before it has a
    gradient."""
    order = _order(subject, gradients)

    def last_of(places: Iterable[str]) -> str:
        return max(places, key=lambda place: max(
            (i for name, i in order.items() if is_within(name, place)), default=-1))

    owners = {parent_of(name) for name in names}
    cut = last_of(owners) if owners else ""
    before = [n for n in gradients.trained if order.get(parent_of(n), len(order)) < order.get(cut, 0)]
    if len(owners) > 1 and before and all(n in gradients.missing for n in before):
        subject.add_line("gradient-missing", sum(subject.parameters[n].numel() for n in gradients.missing), where=cut,
                         declared="nothing before it has one" if len(before) < len(gradients.trained) else "")
        return
    layers: dict[str, list[str]] = defaultdict(list)
    for name in names:
        layers[subject.layer_of(name)].append(name)
    for members in layers.values():
        last = last_of(cover(subject, members, gradients.missing))
        others = [c for n in members for c in gradients.counterparts(n)]
        subject.add_line("gradient-missing", sum(subject.parameters[n].numel() for n in members), where=last,
                         declared=f"{others[0]} has one" if others else "")


def _loss_with_others(subject: Subject, gradients: Gradients, names: list[str]) -> float:
    generator = torch.Generator().manual_seed(2)
    with changed_parameters() as save:
        for value in map(subject.parameters.__getitem__, names):
            noise = torch.randn(value.shape, generator=generator).to(value.device, value.dtype)
            save(value)
            value.data.add_(noise * (0.3 * rms(value) + 0.1))
        with torch.enable_grad():  # selects the same kernels as before
            return float(subject.loss(subject.run(evaluate=False)).detach())
