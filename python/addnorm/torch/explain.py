"""explain: what will compute a tensor's or a model's norms, and why."""

from __future__ import annotations

from collections import Counter
from typing import Union

import torch
from torch import Tensor, nn

from .._structure import dtype_name
from .conversion import is_converted
from .tensors import obstacle

_FORMULA = "PyTorch's functions"


def explain(of: Union[Tensor, nn.Module]) -> str:
    """Says in one line what computes the norms of a tensor, or of a model's converted modules, and why.

    Raises TypeError for another object.
    """
    if isinstance(of, Tensor):
        return f"{dtype_name(of)} on {of.device}: {_computed_by(of)}"
    if not isinstance(of, nn.Module):
        raise TypeError(f"explain() got a {type(of).__name__}, must get a tensor or a torch.nn.Module")
    norms = [module for module in of.modules() if is_converted(module)]
    if not norms:
        return "no module is converted; addnorm.torch.convert(model) converts norms"
    kinds = Counter(_of_module(module, of) for module in norms)
    return "; ".join(f"{count} of {len(norms)} norms: {text}" for text, count in kinds.most_common())


def _of_module(norm: nn.Module, model: nn.Module) -> str:
    """A norm without parameters computes on the device of the model's."""
    tensor = next(iter(norm.parameters()), None)
    tensor = next(iter(model.parameters()), None) if tensor is None else tensor
    if tensor is None:
        return "on the device of their input"
    return f"{dtype_name(tensor)} on {tensor.device}, {_computed_by(tensor)}"


def _computed_by(tensor: Tensor) -> str:
    why = obstacle(tensor)
    if why is not None:
        return f"{_FORMULA}, because it {why}"
    if tensor.is_cuda:
        return f"the kernels of addnorm-cuda ({torch.cuda.get_device_name(tensor.device)})"
    return "the kernels of addnorm"
