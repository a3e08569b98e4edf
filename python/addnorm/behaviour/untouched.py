"""Runs a model without leaving a trace in it."""

from __future__ import annotations

import contextlib
import random
import sys
from typing import Iterator

import torch
from torch import Tensor, nn

_CONTAINERS = (list, dict, set)


class RandomState:
    """Where every generator stands that a model may draw from: Python's, NumPy's, PyTorch's."""

    def __init__(self) -> None:
        self._python = random.getstate()
        self._numpy = sys.modules["numpy"].random.get_state() if "numpy" in sys.modules else None
        self._cpu = torch.get_rng_state()
        used = torch.cuda.is_available() and torch.cuda.is_initialized()
        self._cuda = torch.cuda.get_rng_state_all() if used else []

    def restore(self) -> None:
        random.setstate(self._python)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)
        torch.set_rng_state(self._cpu)
        if self._cuda:
            torch.cuda.set_rng_state_all(self._cuda)


class _ModuleState:
    """What a module has of its own: its attributes, and the contents of those that are containers."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._attributes = dict(vars(module))
        self._contents = {name: value.copy() for name, value in self._attributes.items()
                          if type(value) in _CONTAINERS or name in ("_buffers", "_parameters")}

    def restore(self) -> None:
        attributes = vars(self._module)
        for name in set(attributes) - set(self._attributes):
            del attributes[name]
        for name, value in self._attributes.items():
            if attributes.get(name) is not value:
                attributes[name] = value
        for name, content in self._contents.items():
            value = self._attributes[name]
            value.clear()
            value.extend(content) if isinstance(value, list) else value.update(content)


def _own_tensors(model: nn.Module) -> dict[int, Tensor]:
    """Parameters, buffers, and tensors that modules keep as plain attributes."""
    tensors: dict[int, Tensor] = {}
    for module in model.modules():
        held = (*module._parameters.values(), *module._buffers.values(), *vars(module).values())
        tensors.update((id(t), t) for t in held if isinstance(t, Tensor))
    return tensors


def _write_back(tensor: Tensor, saved: Tensor) -> None:
    if tensor.shape != saved.shape:  # another size is another memory
        tensor.data = saved
    elif not torch.equal(tensor.detach(), saved):
        tensor.data.copy_(saved)


@contextlib.contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """Whatever happens inside: afterwards model has its parameters, gradients, buffers, attributes
    and modes again, and every generator of random numbers its state.

    Costs a copy of the parameters. Values are written back only where they differ, and past the
    counters of autograd: a backward that is still to come does not notice.
    """
    random_state = RandomState()
    modules = [_ModuleState(module) for module in model.modules()]
    gradients = [(p, p.grad, p.requires_grad) for p in model.parameters()]
    saved = [(t, t.detach().clone()) for t in _own_tensors(model).values()]
    try:
        yield
    finally:
        for state in modules:
            state.restore()
        for tensor, values in saved:
            _write_back(tensor, values)
        for parameter, gradient, requires in gradients:
            parameter.grad = gradient
            if parameter.requires_grad != requires:
                parameter.requires_grad_(requires)
        random_state.restore()
