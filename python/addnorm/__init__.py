"""Add & Norm: residual connections and normalization of Transformers, on the CPU.

    y = addnorm.layer_norm(x, gamma, beta)
    y, s, statistics = addnorm.add_norm(x, branch, gamma, beta)      # s = x + branch, y = norm(s)
    ds, d_gamma, d_beta = addnorm.add_norm_backward(dy, s, statistics, gamma)
    x, y, statistics = addnorm.lanes(x, branch, carry, write, read, norm="rms")  # several lanes

An Array is a NumPy array of float32, float64 or float16, or any object on the CPU with `__dlpack__`, such as a PyTorch
tensor, which may also be bfloat16. `BFloat16` holds bfloat16 in NumPy memory. A Factor is a number, an Array or None.

The last axis holds the features; all other axes are rows. In a stream with lanes, the last axis but one holds the
lanes. Arguments are not copied: the values of a row must be contiguous and the rows equally spaced, or the call fails.
Results are new NumPy arrays, or PyTorch tensors if the argument is a tensor. Parameters such as `out` take a result
instead. `torch.from_dlpack` converts arrays without a copy.

The computation, γ, β, factors and statistics are float64 if x is, else float32. Results are bit-identical for any
number of threads (OMP_NUM_THREADS) and any instruction set. The GIL is released.

An invalid value raises `Error`, a ValueError that names the argument; a wrong type raises TypeError.

`check` runs a PyTorch model and returns the doctor's findings; `watch` does so during training.
`addnorm.integrations` has both for pytest, Lightning, Hugging Face's Trainer, TensorBoard, Weights & Biases and
GitHub. `addnorm.torch` has replacements for PyTorch's modules. `trace`, `figure` and `study` are the program's
commands as functions that return plain data.
"""

from typing import TYPE_CHECKING, Any

from ._core import Error, __version__
from .check import check
from .lab import figure, figures, reproduce, study, trace
from .norm_options import Norm
from .report import Coverage, Finding, Report
from .watch import watch

if TYPE_CHECKING:
    from .array_functions import (AddNorm, Array, BFloat16, Lanes, LanesGradients, add_norm, add_norm_backward, derf,
                                  derf_backward, dyt, dyt_backward, lanes, lanes_backward, layer_norm,
                                  layer_norm_backward, residual_add, residual_add_backward, rms_norm, rms_norm_backward)

__all__ = ["AddNorm", "Array", "BFloat16", "Coverage", "Error", "Finding", "Lanes", "LanesGradients", "Norm",
           "Report", "__version__", "add_norm", "add_norm_backward", "check", "derf", "derf_backward",
           "dyt", "dyt_backward", "figure", "figures", "lanes", "lanes_backward", "layer_norm",
           "layer_norm_backward", "reproduce", "residual_add", "residual_add_backward", "rms_norm",
           "rms_norm_backward", "study", "trace", "watch"]


def __getattr__(name: str) -> Any:
    """Imports the names that need NumPy at their first use. Importing NumPy takes four times as long as the rest."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import array_functions
    value = globals()[name] = getattr(array_functions, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
