"""Add & Norm: residual connections and normalization of Transformers, on the CPU.

    y = addnorm.layer_norm(x, gamma, beta)
    y, s, statistics = addnorm.add_norm(x, branch, gamma, beta)      # s = x + branch, y = norm(s)
    ds, d_gamma, d_beta = addnorm.add_norm_backward(dy, s, statistics, gamma)
    x, y, statistics = addnorm.lanes(x, branch, carry, write, read, norm="rms")  # of several lanes

Arrays are NumPy's, in float32, float64 or float16, or anything with `__dlpack__` on the CPU, such as a
PyTorch tensor, which adds bfloat16 (`BFloat16` holds it in NumPy memory). The last axis has the
features, all others the rows; in a stream of lanes the last but one has these. Nothing is copied: the
values of a row must be contiguous and the rows equally spaced, or the call fails. Results are new NumPy
arrays, or PyTorch's tensors in place of tensors, or are written to `out` and its like;
`torch.from_dlpack` takes arrays without a copy. In signatures an Array is any of these, a Factor a
number, an Array or None.

What is computed, and γ, β, factors and statistics, is float64 where x is, else float32. The bits depend
neither on the number of threads (OMP_NUM_THREADS) nor on the instruction set. The GIL is released.

`Error`, a ValueError, names the wrong argument; a wrong type raises TypeError.

`check` runs a PyTorch model and gives what the doctor finds in it; `watch` does so while it trains.
`addnorm.integrations` has them for pytest, Lightning, the Trainer of Hugging Face, TensorBoard, Weights &
Biases and GitHub. `addnorm.torch` has modules that replace PyTorch's own. `trace`, `figure` and `study` are
the program's commands, as functions that return plain data.
"""

from typing import TYPE_CHECKING, Any

try:
    from ._core import Error, __version__
except ImportError as error:
    from ._unloadable import explain
    raise ImportError(explain(error)) from error
from .check import check
from .lab import figure, figures, reproduce, study, trace
from .norm import Norm
from .report import Coverage, Finding, Report
from .watch import watch

if TYPE_CHECKING:
    from .norms import (AddNorm, Array, BFloat16, Lanes, LanesGradients, add_norm, add_norm_backward, derf,
                        derf_backward, dyt, dyt_backward, lanes, lanes_backward, layer_norm, layer_norm_backward,
                        residual_add, residual_add_backward, rms_norm, rms_norm_backward)

__all__ = ["AddNorm", "Array", "BFloat16", "Coverage", "Error", "Finding", "Lanes", "LanesGradients", "Norm",
           "Report", "__version__", "add_norm", "add_norm_backward", "check", "derf", "derf_backward",
           "dyt", "dyt_backward", "figure", "figures", "lanes", "lanes_backward", "layer_norm",
           "layer_norm_backward", "reproduce", "residual_add", "residual_add_backward", "rms_norm",
           "rms_norm_backward", "study", "trace", "watch"]


def __getattr__(name: str) -> Any:
    """What comes with NumPy, whose import takes four times as long as all else here."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import norms
    value = globals()[name] = getattr(norms, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
