"""Watches the PyTorch functions that a forward calls, and reads their arguments."""

from __future__ import annotations

from typing import Any

from torch.overrides import TorchFunctionMode

from .subject import Subject

DROPOUTS = {"dropout", "dropout_", "feature_dropout", "alpha_dropout", "dropout1d", "dropout2d"}
PRODUCTS = {"matmul", "bmm", "baddbmm", "einsum", "__matmul__", "__rmatmul__"}
SOFTMAX = {"softmax", "_softmax"}
SUMS = {"add", "add_", "__add__", "__radd__", "__iadd__"}


class FunctionCheck:
    """Watches the PyTorch functions that a forward calls, and adds lines afterwards."""

    checks = ""  # the names of its checks, which are left out after an error

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def __call__(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        """Inspects a call of a function, by the function's name, when it has returned its result."""
        raise NotImplementedError

    def add_lines(self) -> None:
        """Adds the lines of the profile when the forward has ended."""


class Functions(TorchFunctionMode):
    """Passes every call of a PyTorch function, with its result, to all watchers.

    Exceptions of watchers do not stop the model. The first one of each is listed as left out, for its `checks`.
    """

    def __init__(self, subject: Subject, *watchers: FunctionCheck) -> None:
        super().__init__()
        self._subject, self._watchers = subject, watchers
        self._errors: dict[FunctionCheck, Exception] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        for watch in self._watchers:
            try:
                watch(name, args, kwargs or {}, result)
            except Exception as error:
                self._errors.setdefault(watch, error)
        return result

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for watch, reason in self._errors.items():
            self._subject.leave_out(watch.checks, reason)


def argument(args: tuple[Any, ...], kwargs: dict[str, Any], index: int, name: str) -> Any:
    """Returns an argument of a function, by its position or its name, or None."""
    return args[index] if len(args) > index else kwargs.get(name)


def linear_input(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns the input of a linear map, or None for other functions."""
    if name == "addmm":
        return argument(args, kwargs, 1, "mat1")
    return argument(args, kwargs, 0, "input") if name == "linear" else None


def dropout_rate(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> float:
    if name in DROPOUTS:
        rate = kwargs.get("p", args[1] if len(args) > 1 else 0.5)
        training = kwargs.get("training", args[2] if len(args) > 2 else True)
        return float(rate) if training else 0.0
    if name == "scaled_dot_product_attention":
        return float(kwargs.get("dropout_p", args[4] if len(args) > 4 else 0.0))
    if name == "multi_head_attention_forward":
        return float(argument(args, kwargs, 10, "dropout_p") or 0.0) if kwargs.get("training", True) else 0.0
    return 0.0
