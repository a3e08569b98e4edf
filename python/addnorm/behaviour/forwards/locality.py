"""future-leak and batch-leak: the tokens that one token of the output reads, by its gradient.

The gradient starts at one token of one sequence. If it arrives at other sequences or at later tokens, the output reads
tokens that it must not read. Two backwards go through one forward. The first is unchanged, and measures the whole
model. The second cuts the gradient to that token at every boundary of a module, and finds the module that is the cause.

Many models may read later tokens. A model that is trained on the next token may not. Neither may a few layers of a
model whose other layers do not.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..._structure import tensors_in
from ..run.subject import Subject, Unmeasured
from ..run.targets import Targets
from ..run.tensors import is_16_bit, leading
from ..run.text import plural, some
from ..run.tracer import LIMIT, LIMIT_16_BIT, Input, Tracer


class Shares(NamedTuple):
    """Shares of a gradient's norm: at other sequences, and at earlier and later tokens of its own sequence."""

    batch: float
    past: float
    future: float
    ahead: int  # the distance of the last later token
    behind: int  # the distance of the first earlier token


def _time_axis(inputs: list[Input], shape: tuple[int, ...]) -> int | None:
    """Returns the dimension of an index 0, 1, 2 … that counts the positions of one sequence, or None."""
    if len(shape) < 2 or shape[0] == shape[1]:
        return None
    counts = [i.index for i in inputs if i.counts_up() and i.index.numel() > 1]
    axes = {shape.index(max(i.shape)) for i in counts
            if tuple(i.shape) in ((shape[0],), (shape[1],), (1, shape[1]), (shape[0], 1))}
    return axes.pop() if len(axes) == 1 else None


def _shares(energy: Tensor, at: tuple[int, ...], time: int) -> Shares:
    """Returns the shares of energy[sequence, token], or of energy[token, sequence] if time is 0."""
    others = energy.clone()
    if energy.dim() == 1:
        others[at] = 0
        return Shares(float(others.sum())**0.5, 0, 0, 0, 0)
    others.select(1 - time, at[1 - time]).zero_()
    row, t = energy.select(1 - time, at[1 - time]), at[time]
    later, earlier = row[t + 1:], row[:t]
    ahead, behind = ((part > LIMIT**2).nonzero() for part in (later, earlier))
    return Shares(float(others.sum())**0.5, float(earlier.sum())**0.5, float(later.sum())**0.5,
                  int(ahead.max()) + 1 if len(ahead) else 0, t - int(behind.min()) if len(behind) else 0)


def _counts_sequences(output: Tensor, inputs: list[Input], subject: Subject) -> bool:
    """Returns whether the rows of an output [B, classes] are known to be the sequences of a batch [B, T]. They are if
    positions count to T, or if attention reads [B, T, d]. Outputs of other shapes may compare sequences."""
    batch = {leading(t) for t in tensors_in((subject.inputs, subject.named)) if t.dim() > 1}
    if output.dim() != 2 or len(batch) != 1:
        return False
    (rows, tokens), (sequences, classes) = batch.pop(), output.shape
    if rows != sequences or tokens == rows or classes in (rows - 1, rows, tokens):
        return False
    positions = any(i.counts_up() and i.index.numel() == tokens for i in inputs)
    read = (shape for m, shapes in subject.runs[-1].shapes.items() if isinstance(m, nn.MultiheadAttention)
            for shape in shapes)
    return positions or any(len(shape) == 3 and shape[:2] == (rows, tokens) for shape in read)


def _axis(energies: list[Tensor], at: tuple[int, ...], known: int | None, has_rows: bool, subject: Subject) -> int:
    """Returns the dimension of tokens: the one known from positions or targets, else the one that the model mixes."""
    if known is not None:
        return known
    mixes = [any(_mixes_along(e, at, axis) for e in energies) for axis in range(len(at))]
    if mixes == [True, False]:
        return 0
    if mixes[0] and any(getattr(m, "batch_first", None) is False for m in subject.names) and not has_rows:
        raise Unmeasured("which dimension counts sequences and which tokens is not clear")
    return 1


def _mixes_along(energy: Tensor, at: tuple[int, ...], axis: int) -> bool:
    line = (energy if len(at) == 1 else energy.select(1 - axis, at[1 - axis])).clone()
    line[at[axis]] = 0
    return bool(line.sum() > LIMIT**2)


def measure_locality(subject: Subject, tracer: Tracer, targets: Targets | None) -> None:
    """Adds future-leak and batch-leak, after the tracer's forward."""
    tracer.backward(targets)
    at, limit = tracer.focus.at, LIMIT_16_BIT if is_16_bit(tracer.output) else LIMIT
    read = [i for i in tracer.inputs if i.energy is not None and bool(i.energy.sum() > 0)]
    energies = [*tracer.stages.values(), *(i.energy for i in read if i.energy is not None)]
    if not any(float(e.sum()) for e in energies):
        raise Unmeasured("no gradient of the output arrives at a module or an input")
    positions = _time_axis(tracer.inputs, tracer.focus.shape)
    has_rows = _counts_sequences(tracer.output, tracer.inputs, subject)
    time = _axis(energies, at, targets.time if targets else positions, has_rows, subject)
    stages = {m: _shares(e, at, time) for m, e in reversed(tracer.stages.items())}
    whole = [_shares(i.energy, at, time) for i in _of_targets(read, targets)
             if i.energy is not None and (len(at) == 2 or has_rows)]
    _add_batch_leak(subject, stages, whole, limit,
                    "its targets are the next tokens of a sequence" if targets else
                    "positions count along the other dimension" if positions is not None else "")
    if len(at) == 1:
        subject.leave_out("future-leak", "the output is one for each sequence")
    elif tracer.focus.shape[time] < 3:
        subject.leave_out("future-leak", "sequences of fewer than three tokens")
    else:
        _add_future_leak(subject, stages, whole, limit, _declared_causal(subject, targets), tracer.output)


def _of_targets(inputs: list[Input], targets: Targets | None) -> list[Input]:
    """Returns the inputs whose next tokens are the targets, which excludes those of an encoder; all without targets."""
    same = [i for i in inputs if targets is not None and i.index is not None and torch.equal(i.index, targets.tokens)]
    return same or inputs


def _declared_causal(subject: Subject, targets: Targets | None) -> str:
    if targets:
        return "it is trained on the next token"
    if getattr(subject.config, "is_decoder", None) is True:
        return "config.is_decoder"
    name = type(subject.model).__name__
    return f"the class is {name}" if name.endswith("ForCausalLM") else ""


def _add_batch_leak(subject: Subject, stages: dict[nn.Module, Shares], whole: list[Shares],
                    limit: float, ground: str) -> None:
    """Adds batch-leak. A head may compare sequences, as for a contrastive loss; layers and logits may not."""
    leaks = {m: share.batch for m, share in stages.items() if share.batch > limit}
    for module, share in leaks.items():
        subject.add_line("batch-leak", share, limit=limit, where=subject.names[module], declared=ground)
    if not leaks:
        subject.add_line("batch-leak", max((w.batch for w in whole), default=0.0), limit=limit,
                         where="output", declared=ground)


def _add_future_leak(subject: Subject, stages: dict[nn.Module, Shares], whole: list[Shares],
                     limit: float, declared: str, output: Tensor | None) -> None:
    leaks = {m: share for m, share in stages.items() if share.future > limit}
    seen = min((w.future for w in whole), default=max((x.future for x in stages.values()), default=0.0))
    if seen <= limit and not leaks:
        subject.add_line("future-leak", seen, limit=limit, where="output", declared=declared)
        return
    if declared:
        for module, share in leaks.items():
            subject.add_line("future-leak", share.future, limit=limit, where=subject.names[module],
                             declared=declared, detail=_reach(share))
        if not leaks:
            subject.add_line("future-leak", seen, limit=limit, where="output", declared=declared)
        return
    exceptions = _exceptions(subject, stages, leaks)
    if not exceptions and _gives_logits(subject, output):
        subject.leave_out("future-leak", "the output reads later tokens, and nothing says that it must not; give the "
                                         "loss on the next token (loss=) if it is trained on that")
    for module, detail in exceptions.items():
        subject.add_line("future-leak", leaks[module].future, limit=limit, where=subject.names[module],
                         detail=f"{_reach(leaks[module])}; {detail}")


def _reach(share: Shares) -> str:
    ahead, behind = (plural(n, "token") for n in (share.ahead, share.behind))
    return f"it reads up to {ahead} ahead and {behind} back"


def _exceptions(subject: Subject, stages: dict[nn.Module, Shares],
                leaks: dict[nn.Module, Shares]) -> dict[nn.Module, str]:
    """Returns modules that read later tokens while most counterparts do not, else modules with a mask off by one."""
    groups = defaultdict(list)
    for module, share in stages.items():
        if share.past > LIMIT or share.future > LIMIT:
            groups[subject.of_all_layers(subject.names[module]), type(module)].append(module)
    found: dict[nn.Module, str] = {}
    for members in groups.values():
        ahead = [m for m in members if m in leaks]
        both = [m for m in ahead if stages[m].past > LIMIT]
        if ahead == both and 0 < len(ahead) <= len(members) / 2:  # not alternating layers
            rest = [subject.names[m] for m in members if m not in leaks]
            found.update((m, f"{some(rest)} {'does' if len(rest) == 1 else 'do'} not") for m in ahead)
    if not found and leaks and _reads_tokens(subject):
        if all(x.ahead == 1 and x.behind >= 4 for x in leaks.values()):
            found = {m: "a mask that is off by one" for m in leaks}
    return found


def _gives_logits(subject: Subject, output: Tensor | None) -> bool:
    sizes = {m.num_embeddings for m in subject.names if isinstance(m, nn.Embedding)}
    is_masked = type(subject.model).__name__.endswith("ForMaskedLM")
    return output is not None and output.shape[-1] in sizes and not is_masked and _reads_tokens(subject)


def _reads_tokens(subject: Subject) -> bool:
    return any(not t.is_floating_point() for t in tensors_in((subject.inputs, subject.named)))
