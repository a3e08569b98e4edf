"""Norms and Add & Norm for PyTorch, as functions with gradients and as modules.

    from addnorm.torch import convert
    print(convert(model))   # converts every LayerNorm, RMSNorm and TransformerEncoderLayer, in place

Stack puts any sublayers into an arrangement of residual connections and norms, by its name, such as "mhc".

A tensor may have any shape, and be float32, float64, float16 or bfloat16. A tensor that is not contiguous is copied, as
in PyTorch's own norms. γ and β may also have any of these types. The number of threads is that of
torch.set_num_threads.

The kernels run on the CPU and, with the package addnorm-cuda, on NVIDIA GPUs. PyTorch's own functions compute the norm
of all other tensors: on other devices, of other types, of subclasses such as fake tensors, and under vmap, jvp and
batched gradients. They also compute it while a model is traced, as for ONNX, and in second derivatives. So a converted
model runs on every device. explain() says in one line what will compute a tensor or a model, and why.

From PyTorch 2.5 on, Fusion is a backend of torch.compile that finds sums and norms in the graph:

    fusion = Fusion()
    compiled = torch.compile(model, backend=fusion)   # print(fusion) shows the fused sums and norms after a call

From PyTorch 2.4 on, torch.compile and torch.export see an operator, `addnorm::norm`, `addnorm::add_norm` or
`addnorm::lanes`; DyT and Derf are PyTorch's functions there. With every version of PyTorch, modes that record
operators, such as the probe of addnorm.check, see `addnorm::norm` and `addnorm::squash`, and sums as sums.
torch.jit.script is not supported: script a model before converting it.
"""

from .conversion import Conversion, convert
from .explain import explain
from .functions import add_norm, lanes, norm
from .fusion import Fusion
from .modules import AddNorm, Derf, DyT, LayerNorm, RMSNorm, TransformerEncoderLayer
from .sites import Site, Stream
from .stack import Stack

__all__ = ["AddNorm", "Conversion", "Derf", "DyT", "Fusion", "LayerNorm", "RMSNorm", "Site", "Stack", "Stream",
           "TransformerEncoderLayer", "add_norm", "convert", "explain", "lanes", "norm"]
