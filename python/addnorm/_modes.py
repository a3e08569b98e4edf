"""PyTorch's modes, which an interrupted `with` statement may leave active."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import torch.overrides
import torch.utils._python_dispatch


class Surroundings:
    """PyTorch's modes in this thread, and the setting of torch.compile."""

    def __init__(self) -> None:
        self._computes_gradients, self._stacks, self._stance = torch.is_grad_enabled(), mode_stacks(), _stance()

    def restore(self) -> None:
        torch.set_grad_enabled(self._computes_gradients)
        set_mode_stacks(self._stacks)
        # None: the compiler was imported later and has no earlier setting.
        if self._stance is not None and _stance() is not self._stance:
            sys.modules["torch._dynamo.eval_frame"]._set_stance(self._stance)


def _stance() -> Any:
    return getattr(sys.modules.get("torch._dynamo.eval_frame"), "_stance", None)


_DISPATCH, _FUNCTION = torch.utils._python_dispatch, torch.overrides


class ModeStacks(NamedTuple):
    """The modes that intercept PyTorch's calls in this thread, the innermost last."""

    dispatch: list[Any]
    function: list[Any]


def mode_stacks() -> ModeStacks:
    return ModeStacks(list(_DISPATCH._get_current_dispatch_mode_stack()),
                      list(_FUNCTION._get_current_function_mode_stack()))


def set_mode_stacks(wanted: ModeStacks) -> None:
    for module, found, modes in zip((_DISPATCH, _FUNCTION), mode_stacks(), wanted):
        if list(map(id, found)) != list(map(id, modes)):
            for _ in found:
                module._pop_mode()
            for mode in modes:
                module._push_mode(mode)
    # PyTorch caches whether there are any modes, and an interrupt in mode.__enter__() may leave that outdated.
    if hasattr(_DISPATCH, "_is_in_torch_dispatch_mode"):
        _DISPATCH._is_in_torch_dispatch_mode = bool(wanted.dispatch)
    if hasattr(_DISPATCH, "_is_in_non_infra_torch_dispatch_mode"):
        _DISPATCH._is_in_non_infra_torch_dispatch_mode = not all(mode.is_infra_mode() for mode in wanted.dispatch)
    if not wanted.dispatch and hasattr(_DISPATCH, "_set_torch_dispatch_mode"):  # before 2.0
        _DISPATCH._set_torch_dispatch_mode(None)
    if not wanted.function and hasattr(_FUNCTION, "_set_torch_function_mode"):
        _FUNCTION._set_torch_function_mode(None)


def leave_mode(mode: Any) -> None:
    """Removes a mode from its stack, if it is there."""
    set_mode_stacks(ModeStacks(*([other for other in stack if other is not mode] for stack in mode_stacks())))
