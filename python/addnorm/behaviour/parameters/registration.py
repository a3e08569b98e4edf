"""parameter-unregistered: weights that the model uses but that are not among its parameters. layer-shared: a module
that a list contains several times."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import nn

from ..._structure import hidden_modules, is_norm_class
from ..._undo import Undo
from ..run.subject import Subject


def measure_registration(subject: Subject) -> None:
    hidden = {where: {inner for m in modules for inner in m.modules()}
              for where, modules in hidden_modules(subject.model).items()}
    called = _called(subject, set().union(*hidden.values())) if hidden else set()
    for where, modules in hidden.items():
        used = {p for m in modules & called for p in m.parameters(recurse=False)}
        values = sum(p.numel() for p in used if p.requires_grad)
        if values:
            subject.add_line("parameter-unregistered", values, where=where)
    for name, module in subject.model.named_modules():
        if isinstance(module, (nn.ModuleList, nn.Sequential)):
            often = Counter(m for m in module._modules.values() if m is not None and any(True for _ in m.parameters()))
            for child, count in often.items():
                if count > 1 and not is_norm_class(child):
                    subject.add_line("layer-shared", count, limit=1, where=name)


def _called(subject: Subject, modules: set[nn.Module]) -> set[nn.Module]:
    """Returns the modules that one more forward calls with gradients enabled, which excludes a teacher."""
    called: set[nn.Module] = set()

    def enter(module: nn.Module, inputs: Any) -> None:
        if torch.is_grad_enabled():
            called.add(module)

    with Undo() as hooks:
        for module in modules:
            hooks.hook(module, "forward_pre", enter)
        subject.run(evaluate=False)
    return called
