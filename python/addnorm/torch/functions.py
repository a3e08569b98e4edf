"""norm and add_norm: check the tensors, and choose a kernel or PyTorch's own functions."""

from __future__ import annotations

import math
import numbers
from typing import Any, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .._library import Error
from ..norm_options import Norm, NormFields
from . import operators
from .autograd import DifferentiableAddNorm, DifferentiableSquash
from .formula import DEFAULT_EPSILONS, lanes_in_pytorch, norm_in_pytorch, squash_in_pytorch, value_type
from .struct_kernels import are_mixed
from .tensors import HAS_CUSTOM_OPERATORS, are_readable, fits, is_compiled, is_recorded

Shape = Tuple[int, ...]
OpenFields = Tuple[str, Optional[float], str, str, str, float]  # NormFields with an ε that may be None


def norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None,
         options: Norm = Norm(), shape: int | Sequence[int] | None = None) -> Tensor:
    """Computes the norm `options` of x with γ = weight and β = bias, or 1 and 0.

    x              (…, *shape), of a floating-point type
    shape          the lengths of the last axes, which are normalized together; None: of the last axis
    weight, bias   tensors of that shape

    The result has x's type. The kernels compute tensors that they can read; PyTorch's own functions compute others (on
    other devices, of other types, subclasses, under vmap).

    Raises addnorm.Error for shapes that do not match, and TypeError for an argument that is not a tensor or Norm.
    """
    return apply(x, None, weight, bias, _fields(options), _shape(shape))


def add_norm(x: Tensor, branch: Tensor, weight: Tensor | None = None, bias: Tensor | None = None,
             options: Norm = Norm(), shape: int | Sequence[int] | None = None) -> tuple[Tensor, Tensor]:
    """Computes s = x + branch and y = norm(s), in one pass over memory forward and one backward. Returns (y, s).

    x and branch have the same shape. If their types differ, both are converted to the wider one, as in x + branch:
    kernels for two types would round y to the branch's type. The other arguments and the errors are those of norm().
    """
    _check_is_tensor("branch", branch)
    return apply(x, branch, weight, bias, _fields(options), _shape(shape))


def checked_shape(name: str, value: Any) -> Shape:
    """Returns a width, or the lengths of several axes, as a tuple, like nn.LayerNorm."""
    values = value if isinstance(value, (tuple, list)) else (value,)
    if not all(isinstance(n, numbers.Integral) and not isinstance(n, bool) for n in values):
        raise TypeError(f"{name} is {value!r}, must be an integer or a sequence of integers")
    if not values or min(values) < 1:
        raise Error(f"{name} is {value!r}, must be one positive integer or more")
    return tuple(map(int, values))


def checked_count(name: str, value: Any) -> int:
    """Returns an argument as an integer from 1 to 2³¹ − 1."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}, must be an integer")
    if not 1 <= value < 2**31:
        raise Error(f"{name} is {value}, must be from 1 to {2**31 - 1}")
    return int(value)


def _shape(shape: int | Sequence[int] | None) -> Shape | None:
    return None if shape is None else checked_shape("shape", shape)


def _fields(options: Norm) -> NormFields:
    if not isinstance(options, Norm):
        raise TypeError(f"options is {options!r}, must be an addnorm.Norm")
    return options.fields


def _check_is_tensor(name: str, value: Any) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} is of type {type(value).__name__}, must be a torch.Tensor")


def _check_types(x: Tensor, **others: Tensor | None) -> None:
    for name, tensor in {"x": x, **{n: t for n, t in others.items() if t is not None}}.items():
        _check_is_tensor(name, tensor)
        if not tensor.is_floating_point():
            raise TypeError(f"{name} has the type {tensor.dtype}, must have a floating-point type")


def _check_devices(x: Tensor, **others: Tensor | None) -> None:
    for name, tensor in others.items():
        if tensor is not None and tensor.device != x.device:
            raise Error(f"{name} is on {tensor.device} and x on {x.device}, must be on one device")


def _has_sizes(x: Tensor) -> bool:
    """Whether a tensor's sizes are numbers. They are not while a model is traced, nor for nested tensors."""
    return not (torch.jit.is_tracing() or torch.onnx.is_in_onnx_export() or x.is_nested)


def _check_shapes(x: Tensor, weight: Tensor | None, bias: Tensor | None, shape: Shape) -> None:
    if not shape or tuple(x.shape[-len(shape):]) != shape:
        raise Error(f"x has the shape {tuple(x.shape)}, must end with {shape or 'an axis of features'}")
    for name, tensor in (("weight", weight), ("bias", bias)):
        if tensor is not None and tuple(tensor.shape) != shape:
            raise Error(f"{name} has the shape {tuple(tensor.shape)}, must have {shape}")


def _check_branch(x: Tensor, branch: Tensor) -> None:
    if _has_sizes(x) and branch.shape != x.shape:
        raise Error(f"branch has the shape {tuple(branch.shape)}, must have {tuple(x.shape)}, x's")


def add(x: Tensor, branch: Tensor) -> Tensor:
    """Computes s = x + branch without broadcasting."""
    _check_types(x, branch=branch)
    _check_branch(x, branch)
    return x + branch


def _common_type(x: Tensor, branch: Tensor) -> torch.dtype:
    """Returns the type of x + branch. Calls PyTorch only if the types differ, because an
    exported graph contains the call."""
    return x.dtype if x.dtype == branch.dtype else torch.promote_types(x.dtype, branch.dtype)


def apply(x: Tensor, branch: Tensor | None, weight: Tensor | None, bias: Tensor | None,
          fields: OpenFields, shape: Shape | None) -> Any:
    """Returns y, and s if there is a branch. If ε is None, it is the machine epsilon of their type.

    Conversions precede the computation, so that autograd converts the gradients back.
    """
    _check_types(x, branch=branch, weight=weight, bias=bias)
    _check_devices(x, branch=branch, weight=weight, bias=bias)
    takes = operators.take if is_compiled() else are_readable
    can_compute = _has_sizes(x) and takes(x, branch, weight, bias) and \
        fits(x, math.prod(x.shape[-1:] if shape is None else shape))
    if branch is not None and (not can_compute or is_recorded()):
        s = add(x, branch)
        return apply(s, None, weight, bias, fields, shape), s

    shape = tuple(x.shape[-1:] if shape is None else shape)
    if _has_sizes(x):
        _check_shapes(x, weight, bias, shape)
    wide = x.dtype if branch is None else _common_type(x, branch)
    norm = _closed(fields, wide)
    if not can_compute or 0 in shape:
        return norm_in_pytorch(x, weight, bias, norm, shape)

    if branch is not None:
        _check_branch(x, branch)
        x, branch = x.to(wide), branch.to(wide)
    gamma, beta = (None if p is None else p.to(value_type(x)) for p in (weight, bias))
    compute = operators.apply if is_compiled() else DifferentiableAddNorm.apply
    return compute(x, branch, gamma, beta, norm, len(shape))


def _closed(fields: OpenFields, dtype: torch.dtype) -> NormFields:
    kind, eps, *rest = fields
    return kind, DEFAULT_EPSILONS[dtype] if eps is None else eps, *rest


def lanes(x: Tensor, branch: Tensor | None, carry: Tensor | None, write: Tensor | None, read: Tensor | None = None,
          weight: Tensor | None = None, bias: Tensor | None = None,
          options: Norm | None = None) -> tuple[Tensor, Tensor | None]:
    """Computes X′ = A·X + b ⊗ f and y = norm(a·X′), in one pass over memory where there are kernels. This leads from
    one sublayer's output to the next one's input in a residual stream of n lanes. Returns (X′, y).

    x            (…, n, features), the residual stream
    branch       (…, features), f, of any floating-point type. On a CPU, 16-bit values are read in place if the stream
                 is float32 and `read` is None; otherwise they are converted to x's type. None, with write None: X′ = A·X
    carry        (n′, n), A, or one for each row, (…, n′, n); None: X′ = X + b ⊗ f
    write        (n′,), b, or (…, n′)
    read         (n′,), a, or (…, n′); None: y is None
    weight, bias, options   γ, β and the norm of a·X′; without options, y = a·X′

    Raises addnorm.Error for shapes that do not match and for tensors on two devices, and TypeError for other types.
    """
    _check_types(x, branch=branch, carry=carry, write=write, read=read, weight=weight, bias=bias)
    _check_devices(x, branch=branch, carry=carry, write=write, read=read, weight=weight, bias=bias)
    _check_lanes(x, branch, carry, write, read, weight, bias)
    mixes = [None if t is None else t.to(value_type(x)) for t in (carry, write, read, weight, bias)]
    fields = None if options is None else _fields(options)
    if branch is not None and not (read is None and not x.is_cuda and are_mixed(x, branch)):
        branch = branch.to(x.dtype)  # the kernels return y in the branch's type
    if not HAS_CUSTOM_OPERATORS or torch.jit.is_tracing():
        return lanes_in_pytorch(x, branch, *mixes, fields)
    sum, y, _ = torch.ops.addnorm.lanes(x, branch, *mixes, *(fields or ("", *Norm().fields[1:])))
    return x if carry is None and branch is None else sum, None if read is None else y


def _check_lanes(x: Tensor, branch: Tensor | None, carry: Tensor | None, write: Tensor | None, read: Tensor | None,
                 weight: Tensor | None, bias: Tensor | None) -> None:
    if x.dim() < 2:
        raise Error(f"x has the shape {tuple(x.shape)}, must end with lanes and features")
    if (branch is None) != (write is None):
        raise Error("branch and write must both be given, or neither")
    rows, lanes_before, features = tuple(x.shape[:-2]), x.shape[-2], x.shape[-1]
    made = lanes_before if carry is None else carry.shape[-2] if carry.dim() > 1 else 0
    expected = {"carry": (carry, (made, lanes_before)), "write": (write, (made,)), "read": (read, (made,))}
    for name, (mix, shape) in expected.items():
        if mix is not None and tuple(mix.shape) not in (shape, rows + shape):
            raise Error(f"{name} has the shape {tuple(mix.shape)}, must have {shape} or {rows + shape}")
    if branch is not None and tuple(branch.shape) != (*rows, features):
        raise Error(f"branch has the shape {tuple(branch.shape)}, must have {(*rows, features)}")
    for name, tensor in (("weight", weight), ("bias", bias)):
        if tensor is not None and tuple(tensor.shape) != (features,):
            raise Error(f"{name} has the shape {tuple(tensor.shape)}, must have {(features,)}")


def squash(x: Tensor, alpha: Tensor, shift: Tensor | None, weight: Tensor | None, bias: Tensor | None,
           kind: str) -> Tensor:
    """Computes y = weight ⊙ tanh(alpha·x) + bias for "dyt", and weight ⊙ erf(alpha·x + shift) + bias for "derf". A
    compiler or an exporter sees PyTorch's own functions."""
    _check_types(x, alpha=alpha, shift=shift, weight=weight, bias=bias)
    factors = [None if p is None else p.to(value_type(x)) for p in (alpha, shift, weight, bias)]
    is_traced = torch.jit.is_tracing() or torch.onnx.is_in_onnx_export() or is_compiled()
    if is_traced or x.is_cuda or not are_readable(x, *factors):
        return squash_in_pytorch(x, *factors, kind)
    _check_shapes(x, weight, bias, tuple(x.shape[-1:]))
    return DifferentiableSquash.apply(x, *factors, kind)
