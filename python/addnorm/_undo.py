"""Changes that must not outlive their use, such as hooks on modules and tensors.

An interrupt (Ctrl+C) may come between any two instructions, also between a change and the note of how it is taken
back. So the step back is noted first, it does nothing where nothing was changed, and it may be taken twice.
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
    """The steps back from some changes. `with Undo() as hooks:` takes them at its end."""

    def __init__(self) -> None:
        self._steps: list[Callable[[], object]] = []

    def __enter__(self) -> Undo:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def callback(self, step: Callable[..., object], *arguments: Any) -> None:
        """Notes step(*arguments), before the change that it takes back."""
        self._steps.append(functools.partial(step, *arguments))

    def is_empty(self) -> bool:
        return not self._steps

    def close(self) -> None:
        """Takes all steps, the last one first, and forgets them. An error of one step is raised after the others.
        If close() is interrupted, it can be called again."""
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
        """Adds a hook at a point of a module, "forward" or "forward_pre". With PyTorch 2.0 and later it is `named`, if
        that is given, which also takes the named arguments. Returns False if the module takes no hook, as modules of
        torch.jit.script."""
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
        """Adds hooks before and after the forward of a module, each as arguments of hook(); or none, and returns False.
        """
        if self.hook(module, "forward_pre", *enter) and self.hook(module, "forward", *leave):
            return True
        _drop_hooks(module, "forward_pre", enter)
        return False

    def hook_gradient(self, tensor: Tensor, function: Callable[[Tensor], Any]) -> None:
        """Adds a hook for the gradient of a tensor. It does not keep the tensor alive."""
        self.callback(_drop_gradient_hook, weakref.ref(tensor), function)
        tensor.register_hook(function)

    def hook_edge(self, edge: tuple[Any, int], function: Callable[[Tensor | None], Any]) -> None:
        """Adds a hook for the gradient that arrives at an output of a node of PyTorch's graph, None if it is zero. The
        hook goes when the graph goes. The graph and the function may hold each other, which Python's collector does not
        see; so the hook forgets the function when this is closed."""
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
    """Takes functions out of a dictionary of hooks, and their keys out of the others."""
    for key, hook in list(hooks.items()):
        if any(hook is function for function in functions):
            for kind in others:
                kind.pop(key, None)
            hooks.pop(key, None)


# -- Calls that are undone --


def run_undone(function: Callable[[], Result], undo: Callable[[], object]) -> Result:
    """Returns function(), and calls undo() after it, whatever happens in function. undo() is called again if something
    was raised, since it may have been interrupted itself."""
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
    """Ends the generators of context managers that an interrupt has caught in contextlib. They would end when the
    traceback is freed, and change then what was undone long before."""
    while traceback is not None:
        frame, traceback = traceback.tb_frame, traceback.tb_next
        if frame.f_code.co_filename == contextlib.contextmanager.__code__.co_filename:
            try:
                frame.clear()
            except RuntimeError:  # of a frame that runs
                continue


class Exit:
    """The `__exit__` of a class with an Undo, `_undo`. A `with` statement gets it as a new object, which nothing else
    holds. So `_undo` is closed when the statement ends, even if an interrupt ends __exit__ at its first instruction.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function

    def __get__(self, instance: Any, owner: type) -> Callable[..., object]:
        if instance is None:
            return self._function
        leave = functools.partial(self._function, instance)
        if instance._undo.is_empty():  # else this is not a `with` statement that begins
            weakref.finalize(leave, instance._undo.close).atexit = False
        return leave
