"""Norms and Add & Norm for PyTorch, as functions with gradients and as modules.

    from addnorm.torch import convert
    print(convert(model))   # every LayerNorm, RMSNorm and TransformerEncoderLayer in it, in place

A tensor may have any shape and float32, float64, float16 or bfloat16; one that is not contiguous is
copied, as PyTorch's own norms do. γ and β may have any of these types too. Threads are those of
torch.set_num_threads.

The kernels run on the CPU. PyTorch's own functions compute the norm of tensors that the kernels cannot
read: on a GPU or the meta device, of other types, of subclasses such as fake tensors, and under vmap, jvp and
batched gradients. They also compute it while a model is traced, as for ONNX, and in second derivatives.

Since PyTorch 2.4 torch.compile and torch.export see an operator, `addnorm::norm` or `addnorm::add_norm`;
DyT and Derf are PyTorch's functions there. Modes that record operators, as the probe of addnorm.check does,
see `addnorm::norm` and `addnorm::squash` of every PyTorch, and sums as sums.
torch.jit.script is refused: script a model before it is converted.
"""

from .conversion import Conversion, convert
from .functions import add_norm, norm
from .modules import AddNorm, Derf, DyT, LayerNorm, RMSNorm, TransformerEncoderLayer

__all__ = ["AddNorm", "Conversion", "Derf", "DyT", "LayerNorm", "RMSNorm", "TransformerEncoderLayer",
           "add_norm", "convert", "norm"]
