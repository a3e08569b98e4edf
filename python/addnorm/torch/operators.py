"""The functions as operators of PyTorch: for torch.compile and torch.export, for modes that record operators, and for
calls as torch.ops.addnorm.*. They take tensors of every device: where the library has no kernels, PyTorch's own
functions compute the same."""

from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ..norm_options import NormFields
from . import cpu_kernels, cuda_kernels
from .formula import (
    add_norm_backward_in_pytorch,
    lanes_backward_in_pytorch,
    lanes_in_pytorch,
    norm_in_pytorch,
    squash_in_pytorch,
    value_type,
)
from .kernels import kernels_of
from .outputs import new_like, new_statistics
from .tensors import DTYPES, HAS_CUSTOM_OPERATORS, fits, obstacle, obstacle_of_device


def take(*tensors: Optional[Tensor]) -> bool:
    """Whether there are kernels for tensors like these. A compiler traces this function, so it reads only devices and
    types."""
    return all(t is None or t.dtype in DTYPES and obstacle_of_device(t.device, t.dtype) is None for t in tensors)


def apply(x: Tensor, branch: Optional[Tensor], gamma: Optional[Tensor], beta: Optional[Tensor],
          fields: NormFields, axes: int) -> Any:
    """Has the arguments and results of DifferentiableAddNorm.apply."""
    if branch is None:
        return torch.ops.addnorm.norm(x, gamma, beta, *fields, axes)[0]
    return torch.ops.addnorm.add_norm(x, branch, gamma, beta, *fields, axes)[:2]


def _can_compute(features: int, *tensors: Optional[Tensor]) -> bool:
    present = [t for t in tensors if t is not None]
    return all(obstacle(t) is None for t in present) and fits(present[0], features) and present[0].numel() > 0


def _features(x: Tensor, axes: int) -> int:
    return x.shape[-axes:].numel()


# ---- Norms -----------------------------------------------------------------------------------


def _compute(x: Tensor, branch: Optional[Tensor], gamma: Optional[Tensor], beta: Optional[Tensor], fields: NormFields,
             axes: int) -> Tuple[Tensor, Optional[Tensor], Tensor]:
    """Returns y, s and the statistics. PyTorch's own functions leave the statistics at 0; their backward needs none."""
    if _can_compute(_features(x, axes), x, branch, gamma, beta):
        found: Tuple[Tensor, Optional[Tensor], Tensor] = kernels_of(x).forward(x, branch, gamma, beta, fields, axes)
        return found
    s = x if branch is None else x + branch
    y = norm_in_pytorch(s, gamma, beta, fields, s.shape[-axes:])
    return y.contiguous(), None if branch is None else s.contiguous(), new_statistics(x, axes).zero_()


# PyTorch derives an operator's schema from these types, which must not be strings.
def _norm(x: Tensor, gamma: Optional[Tensor], beta: Optional[Tensor], kind: str, eps: float, eps_at: str,
          variance: str, gamma_form: str, output_scale: float, axes: int = 1) -> tuple[Tensor, Tensor]:
    """Returns y and the statistics."""
    y, _, statistics = _compute(x, None, gamma, beta, (kind, eps, eps_at, variance, gamma_form, output_scale), axes)
    return y, statistics


def _add_norm(x: Tensor, branch: Tensor, gamma: Optional[Tensor], beta: Optional[Tensor], kind: str,
              eps: float, eps_at: str, variance: str, gamma_form: str,
              output_scale: float, axes: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Returns y, s and the statistics."""
    y, s, statistics = _compute(x, branch, gamma, beta, (kind, eps, eps_at, variance, gamma_form, output_scale), axes)
    assert s is not None
    return y, s, statistics


def _backward(dy: Tensor, ds: Optional[Tensor], s: Tensor, statistics: Tensor, gamma: Optional[Tensor],
              kind: str, eps: float, eps_at: str, variance: str, gamma_form: str,
              output_scale: float, axes: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Returns dx, d_gamma and d_beta."""
    fields = kind, eps, eps_at, variance, gamma_form, output_scale
    if _can_compute(_features(s, axes), s, dy, ds, statistics, gamma):
        dx, d_gamma, d_beta = kernels_of(s).backward(dy, ds, s, statistics, gamma, True, True, fields, axes)
    else:
        dx, d_gamma, d_beta = add_norm_backward_in_pytorch(dy, ds, s, gamma, fields, axes)
    assert d_gamma is not None and d_beta is not None
    return dx.contiguous(), d_gamma, d_beta


def _squash(x: Tensor, alpha: Tensor, shift: Optional[Tensor], gamma: Optional[Tensor],
            beta: Optional[Tensor], kind: str) -> Tensor:
    """Returns y."""
    if x.is_cuda or not _can_compute(x.shape[-1], x, alpha, shift, gamma, beta):
        return squash_in_pytorch(x, alpha, shift, gamma, beta, kind)
    return cpu_kernels.squash(x, alpha, shift, gamma, beta, kind)


def _axes(norm: tuple[Any, ...]) -> int:
    """Returns the last argument of the operators, which PyTorch omits if it is the default."""
    return int(norm[6]) if len(norm) > 6 else 1


def _shapes_of_norm(x: Tensor, gamma: Any, beta: Any, *norm: Any) -> tuple[Tensor, Tensor]:
    return new_like(x), new_statistics(x, _axes(norm))


def _shapes_of_add_norm(x: Tensor, branch: Any, gamma: Any, beta: Any, *norm: Any) -> tuple[Tensor, Tensor, Tensor]:
    return new_like(x), new_like(x), new_statistics(x, _axes(norm))


def _shapes_of_backward(dy: Tensor, ds: Optional[Tensor], s: Tensor, statistics: Tensor, gamma: Any,
                        *norm: Any) -> tuple[Tensor, Tensor, Tensor]:
    features = s.shape[-_axes(norm):]
    return new_like(s), statistics.new_empty(features), statistics.new_empty(features)


def _remember_norm(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, gamma, beta, *fields = inputs
    _remember(ctx, x, output[1], gamma, beta, fields)


def _remember_add_norm(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, _, gamma, beta, *fields = inputs
    _remember(ctx, output[1], output[2], gamma, beta, fields)


def _remember(ctx: Any, s: Tensor, statistics: Tensor, gamma: Optional[Tensor], beta: Optional[Tensor],
              fields: list[Any]) -> None:
    ctx.save_for_backward(s, statistics, gamma)
    ctx.set_materialize_grads(False)
    ctx.has_beta = beta is not None
    ctx.fields = fields


def _gradients(ctx: Any, dy: Optional[Tensor], ds: Optional[Tensor]) -> tuple[Any, Any, Any]:
    """Returns the gradients of x, γ and β."""
    if dy is None:
        return ds, None, None
    s, statistics, gamma = ctx.saved_tensors
    dx, d_gamma, d_beta = torch.ops.addnorm.backward(dy, ds, s, statistics, gamma, *ctx.fields)
    return dx, None if gamma is None else d_gamma, d_beta if ctx.has_beta else None


def _differentiate_norm(ctx: Any, dy: Optional[Tensor], _: Any) -> tuple[Any, ...]:
    return *_gradients(ctx, dy, None), *[None] * len(ctx.fields)


def _differentiate_add_norm(ctx: Any, dy: Optional[Tensor], ds: Optional[Tensor],
                            _: Any) -> tuple[Any, ...]:
    dx, d_gamma, d_beta = _gradients(ctx, dy, ds)
    return dx, dx, d_gamma, d_beta, *[None] * len(ctx.fields)


def _remember_backward(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    dy, ds, s, _, gamma, *fields = inputs
    ctx.save_for_backward(dy, ds, s, gamma)
    ctx.set_materialize_grads(False)
    ctx.fields = fields


def _differentiate_backward(ctx: Any, *gradients: Optional[Tensor]) -> tuple[Any, ...]:
    *fields, axes = ctx.fields if len(ctx.fields) > 6 else (*ctx.fields, 1)
    d_dy, d_ds, d_s, d_gamma = _second_gradients(
        lambda *of: add_norm_backward_in_pytorch(*of, (*fields,), axes), ctx.saved_tensors, gradients)
    return d_dy, d_ds, d_s, None, d_gamma, *[None] * len(ctx.fields)


def _second_gradients(backward: Callable[..., Sequence[Tensor]], tensors: Sequence[Optional[Tensor]],
                      gradients: Sequence[Optional[Tensor]]) -> List[Optional[Tensor]]:
    """Returns the gradients of the inputs of a backward, itself in PyTorch's own functions."""
    with torch.enable_grad():
        inputs = [None if t is None else t.detach().requires_grad_() for t in tensors]
        outputs = backward(*inputs)
        used = [(output, g) for output, g in zip(outputs, gradients) if g is not None and output.requires_grad]
        present = [t for t in inputs if t is not None]
        found = iter(torch.autograd.grad([output for output, _ in used], present, [g for _, g in used],
                                         allow_unused=True)) if used else iter([None] * len(present))
    return [None if t is None else next(found) for t in inputs]


# ---- Lanes -----------------------------------------------------------------------------------


def _lanes(x: Tensor, branch: Optional[Tensor], carry: Optional[Tensor], write: Optional[Tensor],
           read: Optional[Tensor], gamma: Optional[Tensor], beta: Optional[Tensor], kind: str, eps: float, eps_at: str,
           variance: str, gamma_form: str, output_scale: float) -> tuple[Tensor, Tensor, Tensor]:
    """Returns X′, y and the statistics, each empty if it was not requested. An empty kind stands for no norm."""
    fields = _lane_fields(kind, eps, eps_at, variance, gamma_form, output_scale)
    has_statistics = fields is not None and read is not None
    if _can_compute_lanes(x, branch, carry, write, read, gamma, beta):
        sum, y, statistics = kernels_of(x).lanes_forward(x, branch, carry, write, read, gamma, beta,
                                                         fields if has_statistics else None)
    else:
        sum, y = lanes_in_pytorch(x, branch, carry, write, read, gamma, beta, fields)
        sum = None if carry is None and branch is None else sum.contiguous()
        statistics = new_statistics(x, 2).zero_() if has_statistics else None
    empty = x.new_empty(0)
    return (empty if sum is None else sum, empty.clone() if y is None else y.contiguous(),
            empty.to(value_type(x)).clone() if statistics is None else statistics)


def _lane_fields(kind: str, *rest: Any) -> Any:
    return (kind, *rest) if kind else None


def _can_compute_lanes(x: Tensor, branch: Optional[Tensor], *others: Optional[Tensor]) -> bool:
    """The kernels of a GPU mix 2 or 4 lanes, and as many lanes leave as enter."""
    carry = others[0]
    if x.is_cuda and (x.shape[-2] not in (2, 4) or carry is not None and carry.shape[-2] != carry.shape[-1] or
                      cuda_kernels.obstacle(x.device, x.shape[-1], x.shape[-2]) is not None):
        return False
    mixes = carry is not None or branch is not None
    if mixes and max(x.shape[-2], x.shape[-2] if carry is None else carry.shape[-2]) > 16:
        return False
    return _can_compute(x.shape[-1], x, branch, *others)


def _lanes_backward(d_sum: Optional[Tensor], dy: Optional[Tensor], x: Tensor, branch: Optional[Tensor],
                    carry: Optional[Tensor], write: Optional[Tensor], read: Optional[Tensor],
                    statistics: Tensor, gamma: Optional[Tensor], kind: str, eps: float, eps_at: str, variance: str,
                    gamma_form: str, output_scale: float) -> List[Tensor]:
    """Returns the gradients of x, branch, carry, write, read, γ and β, each empty if the argument is absent."""
    fields = _lane_fields(kind, eps, eps_at, variance, gamma_form, output_scale)
    if read is None:
        fields, dy = None, None
    elif dy is None:
        dy = torch.zeros_like(x[..., 0, :])
    inputs = x, branch, carry, write, read
    if _can_compute_lanes(x, branch, carry, write, read, gamma, d_sum, dy):
        found = kernels_of(x).lanes_backward(d_sum, dy, *inputs, None if fields is None else statistics, gamma, fields)
    else:
        found = lanes_backward_in_pytorch(d_sum, dy, *inputs, gamma, fields)
    return [x.new_empty(0) if t is None else t.contiguous() for t in found]


def _shapes_of_lanes(x: Tensor, branch: Any, carry: Any, write: Any, read: Any, gamma: Any, beta: Any, kind: str,
                     *norm: Any) -> tuple[Tensor, Tensor, Tensor]:
    rows, features = x.shape[:-2], x.shape[-1]
    made = x.shape[-2] if carry is None else carry.shape[-2]
    mixes = carry is not None or branch is not None
    return (x.new_empty((*rows, made, features) if mixes else (0,)),
            x.new_empty((0,) if read is None else (*rows, features)),
            x.new_empty((*rows, 6) if kind and read is not None else (0,), dtype=value_type(x)))


def _shapes_of_lanes_backward(d_sum: Any, dy: Any, x: Tensor, branch: Any, carry: Any, write: Any, read: Any,
                              statistics: Tensor, gamma: Any, kind: str, *norm: Any) -> List[Tensor]:
    inputs = [x.new_empty(0) if t is None else new_like(t) for t in (x, branch, carry, write, read)]
    return inputs + [statistics.new_empty(x.shape[-1:] if kind and read is not None else (0,)) for _ in range(2)]


def _remember_lanes(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, branch, carry, write, read, gamma, beta, *fields = inputs
    ctx.save_for_backward(x, branch, carry, write, read, output[2], gamma)
    ctx.set_materialize_grads(False)
    ctx.fields, ctx.has = fields, [t is not None for t in (x, branch, carry, write, read, gamma, beta)]


def _differentiate_lanes(ctx: Any, d_sum: Optional[Tensor], dy: Optional[Tensor], _: Any) -> tuple[Any, ...]:
    if d_sum is None and dy is None:
        return (*[None] * (len(ctx.has) + len(ctx.fields)),)
    found = torch.ops.addnorm.lanes_backward(d_sum, dy, *ctx.saved_tensors, *ctx.fields)
    return *(t if has else None for t, has in zip(found, ctx.has)), *[None] * len(ctx.fields)


def _remember_lanes_backward(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    d_sum, dy, x, branch, carry, write, read, _, gamma, *fields = inputs
    ctx.save_for_backward(d_sum, dy, x, branch, carry, write, read, gamma)
    ctx.fields = fields


def _differentiate_lanes_backward(ctx: Any, gradients: List[Optional[Tensor]]) -> tuple[Any, ...]:
    fields, tensors = _lane_fields(*ctx.fields), ctx.saved_tensors

    def backward(*of: Any) -> Sequence[Tensor]:
        found = lanes_backward_in_pytorch(*of, None if of[6] is None else fields)
        return [tensors[2].new_zeros(()) if t is None else t for t in found]

    d_sum, dy, x, branch, carry, write, read, gamma = _second_gradients(backward, tensors, gradients)
    return d_sum, dy, x, branch, carry, write, read, None, gamma, *[None] * len(ctx.fields)


# ---- Registration ----------------------------------------------------------------------------


def _register() -> None:
    def operator(name: str, function: Any, shapes: Any, differentiate: Any = None, remember: Any = None) -> None:
        registered = torch.library.custom_op(f"addnorm::{name}", function, mutates_args=())
        registered.register_fake(shapes)
        if differentiate is not None:
            registered.register_autograd(differentiate, setup_context=remember)

    operator("norm", _norm, _shapes_of_norm, _differentiate_norm, _remember_norm)
    operator("add_norm", _add_norm, _shapes_of_add_norm, _differentiate_add_norm, _remember_add_norm)
    operator("backward", _backward, _shapes_of_backward, _differentiate_backward, _remember_backward)
    operator("lanes", _lanes, _shapes_of_lanes, _differentiate_lanes, _remember_lanes)
    operator("lanes_backward", _lanes_backward, _shapes_of_lanes_backward, _differentiate_lanes_backward,
             _remember_lanes_backward)
    operator("squash", _squash, lambda x, *_: new_like(x))


def _register_for_modes() -> torch.library.Library:
    """Registers the operators for PyTorch before 2.4, where only modes see them. They live as
    long as the returned library."""
    library = torch.library.Library("addnorm", "DEF")
    library.define("norm(Tensor x, Tensor? gamma, Tensor? beta, str kind, float eps, str eps_at, str variance, "
                   "str gamma_form, float output_scale, int axes=1) -> (Tensor, Tensor)")
    library.define("squash(Tensor x, Tensor alpha, Tensor? shift, Tensor? gamma, Tensor? beta, str kind) -> Tensor")
    for device in "CPU", "CUDA":
        library.impl("norm", _norm, device)
        library.impl("norm", _norm_with_gradients, f"Autograd{device}")
        library.impl("squash", _squash, device)
    return library


def _norm_with_gradients(x: Tensor, gamma: Optional[Tensor], beta: Optional[Tensor],
                         *norm: Any) -> tuple[Tensor, Tensor]:
    axes = _axes(norm)
    if torch.is_grad_enabled():
        return norm_in_pytorch(x, gamma, beta, norm[:6], x.shape[-axes:]), new_statistics(x, axes)
    below = torch._C._AutoDispatchBelowAutograd()  # active until it is deleted
    try:
        found: tuple[Tensor, Tensor] = torch.ops.addnorm.norm(x, gamma, beta, *norm)
        return found
    finally:
        del below


if HAS_CUSTOM_OPERATORS:
    _register()
else:
    _library = _register_for_modes()
