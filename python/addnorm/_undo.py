"""Undoes changes that must not outlive their use, such as hooks on modules and tensors.

An interrupt (Ctrl+C) may occur between any two instructions, even between a change and the registration of its undo
step. The undo step is therefore registered first. It does nothing if nothing was changed, and it may run twice.
"""

from __future__ import annotations

import contextlib
import functools
import types
import weakref
from typing import TYPE_CHECKING, Any, Callable, TypeVar

if TYPE_CHECKING:
    from torch import Tensor, nn

Result = TypeVar("Result")
Hook = Callable[..., Any]


class Undo:
    """The undo steps of some changes. `with Undo() as hooks:` runs them at its end."""

    def __init__(self) -> None:
        self._steps: list[Callable[[], object]] = []

    def __enter__(self) -> Undo:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def callback(self, step: Callable[..., object], *arguments: Any) -> None:
        """Registers step(*arguments). Must be called before the change that the step undoes."""
        self._steps.append(functools.partial(step, *arguments))

    def is_empty(self) -> bool:
        return not self._steps

    def close(self) -> None:
        """Runs all steps, the last one first, and forgets them. An error in one step is raised after the others have
        run. If close() is interrupted, it can be called again."""
        errors = []
        for step in reversed(self._steps):
            try:
                step()
            except Exception as error:
                errors.append(error)
        self._steps.clear()
        if errors:
            raise errors[0]

    def hook(self, module: nn.Module, point: str, function: Hook, named: Hook | None = None) -> bool:
        """Adds a hook at a point of a module, "forward" or "forward_pre". With PyTorch 2.0 and later, `named` is
        used if given; it also takes the named arguments. Returns False if the module does not allow hooks, like
        modules of torch.jit.script."""
        self.callback(_drop_hooks, module, point, (function, named))
        register = getattr(module, f"register_{point}_hook")
        try:
            if named is not None:
                try:
                    register(named, with_kwargs=True)
                    return True
                except TypeError:  # PyTorch before 2.0
                    pass
            register(function)
        except Exception:
            return False
        return True

    def hook_calls(self, module: nn.Module, enter: tuple[Hook, ...], leave: tuple[Hook, ...]) -> bool:
        """Adds hooks before and after the forward of a module, each given as the arguments of hook(). If one is not
        allowed, adds none and returns False.
        """
        if self.hook(module, "forward_pre", *enter) and self.hook(module, "forward", *leave):
            return True
        _drop_hooks(module, "forward_pre", enter)
        return False

    def hook_gradient(self, tensor: Tensor, function: Callable[[Tensor], Any]) -> None:
        """Adds a hook for the gradient of a tensor. Does not keep the tensor alive."""
        self.callback(_drop_gradient_hook, weakref.ref(tensor), function)
        tensor.register_hook(function)

    def hook_edge(self, edge: tuple[Any, int], function: Callable[[Tensor | None], Any]) -> None:
        """Adds a hook for the gradient that arrives at an output of a node of PyTorch's graph; None if it is zero. The
        hook is freed with the graph. The graph and the function may refer to each other, which Python's collector
        cannot detect. The hook therefore drops the function on close()."""
        node, output = edge
        functions = [function]
        self.callback(functions.clear)

        def arrived(read: Any, gave: tuple[Tensor | None, ...]) -> None:
            for known in functions:
                known(gave[output])

        node.register_hook(arrived)

    def hook_optimizers(self, point: str, function: Hook) -> None:
        """Adds a hook before ("pre") or after ("post") the steps of all optimizers. This needs PyTorch 2.0."""
        from torch.optim import optimizer
        self.callback(_drop, getattr(optimizer, f"_global_optimizer_{point}_hooks"), (function,))
        getattr(optimizer, f"register_optimizer_step_{point}_hook")(function)


def _drop_hooks(module: nn.Module, point: str, functions: tuple[Any, ...]) -> None:
    kinds = (getattr(module, f"_{point}_hooks_{kind}", {}) for kind in ("with_kwargs", "always_called"))
    _drop(getattr(module, f"_{point}_hooks"), functions, *kinds)


def _drop_gradient_hook(tensor: weakref.ref[Tensor], function: Callable[[Tensor], Any]) -> None:
    known = tensor()
    if known is not None:
        _drop(known._backward_hooks or {}, (function,))


def _drop(hooks: dict[Any, Any], functions: tuple[Any, ...], *others: dict[Any, Any]) -> None:
    """Removes functions from a dictionary of hooks, and their keys from the others."""
    for key, hook in list(hooks.items()):
        if any(hook is function for function in functions):
            for kind in others:
                kind.pop(key, None)
            hooks.pop(key, None)


# -- Calls that are undone --


def run_undone(function: Callable[[], Result], undo: Callable[[], object]) -> Result:
    """Returns function(), and calls undo() afterwards even if function raises. If anything was raised, undo() is called
    a second time, because the first call may have been interrupted."""
    try:
        try:
            return function()
        except BaseException as error:
            end_contexts(error.__traceback__)
            raise
        finally:
            undo()
    except BaseException:
        undo()
        raise


def end_contexts(traceback: types.TracebackType | None) -> None:
    """Ends the generators of context managers that an interrupt has left suspended in contextlib. Otherwise they would
    end when the traceback is freed, and change state that has already been restored."""
    while traceback is not None:
        frame, traceback = traceback.tb_frame, traceback.tb_next
        if frame.f_code.co_filename == contextlib.contextmanager.__code__.co_filename:
            try:
                frame.clear()
            except RuntimeError:  # the frame is running
                continue


class Exit:
    """The `__exit__` of a class with an Undo, `_undo`. Each `with` statement gets a new object that
    nothing else refers to. `_undo` is therefore closed when the statement ends, even if an interrupt stops
    __exit__ at its first instruction.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function

    def __get__(self, instance: Any, owner: type) -> Callable[..., object]:
        if instance is None:
            return self._function
        leave = functools.partial(self._function, instance)
        if instance._undo.is_empty():  # else no `with` statement begins here
            weakref.finalize(leave, instance._undo.close).atexit = False
        return leave
