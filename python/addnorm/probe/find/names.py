"""Recognizes modules and parameters by their names."""

from __future__ import annotations

import re
from typing import Any, Optional

from torch import Tensor, nn

from ..._structure import is_norm_class, may_normalize_rows, tensors_in

ATTENTION = re.compile(r"attn|attention|mha", re.I)
NORM_NAME = re.compile(r"norm|^ln|_ln$", re.I)
ATTENTION_WEIGHTS = {
    "query": r"q|wq|q_proj|query|query_proj|to_q|q_lin",
    "key": r"k|wk|k_proj|key|key_proj|to_k|k_lin",
    "value": r"v|wv|v_proj|value|value_proj|to_v|v_lin",
    "query+key+value": r"qkv|wqkv|c_attn|qkv_proj|in_proj|to_qkv",
    "output": r"o|wo|o_proj|out_proj|c_proj|output|out|out_lin|proj|to_out",
}
FEED_FORWARD_WEIGHTS = {
    "gate": r"gate|gate_proj|wi_0|w1",
    "up": r"up|up_proj|wi|wi_1|w3|c_fc|fc1|fc_in|lin1|linear1|dense_h_to_4h",
    "gate+up": r"gate_up_proj|gate_up",
    "down": r"down|down_proj|wo|w2|c_proj|fc2|fc_out|lin2|linear2|dense_4h_to_h",
}

# A norm inside attention, by the parts of its name: q_norm, key_layernorm, kv_a_layernorm.
ATTENTION_NORMS = {"query": r"q|query|queries", "key": r"k|key|keys|kv", "value": r"v|value|values"}

# Classes that squash each value instead of normalizing rows, by the doctor's name for them.
SQUASHING = {"dyt": r"dyt|dynamic_?tanh", "derf": r"derf|dynamic_?erf"}


# Names in implementations of manifold-constrained hyper-connections (mHC). MHCA is attention, and some routers of
# experts use Sinkhorn's algorithm too.
MHC = re.compile(r"mhc(?!a)|sinkhorn|birkhoff|manifold_?constrained", re.I)
OTHER_SINKHORN = re.compile(r"rout|gat(e|ing)|moe|expert|attn|attention", re.I)


def names_mhc(path: str, module: nn.Module) -> bool:
    """Whether a module's name, its class or a name in its methods says that it is mHC."""
    names = [path.rpartition(".")[2], type(module).__name__]
    if any(map(OTHER_SINKHORN.search, names)):
        return False
    used = [name for method in vars(type(module)).values() if hasattr(method, "__code__")
            for name in method.__code__.co_names]
    return any(map(MHC.search, names + used))


def stem_of(weight: str) -> str:
    """Returns a weight's name without its suffix ".weight" or "_weight"."""
    return weight[:-7] if weight.endswith((".weight", "_weight")) else weight


def weight_named(name: str, is_attention: bool) -> Optional[str]:
    """Returns the kind of a projection's weight, such as "query", by the last part of its name."""
    last = name.rpartition(".")[2].lower()
    if last == "dense":  # BERT's
        last = "up" if "intermediate" in name else "out_proj" if is_attention else "down"
    table = ATTENTION_WEIGHTS if is_attention else FEED_FORWARD_WEIGHTS
    return next((w for w, names in table.items() if re.fullmatch(names, last)), None)


def norm_of_attention(name: str) -> Optional[str]:
    """Returns "query", "key" or "value" for the name of a norm of these, or None."""
    parts = name.rpartition(".")[2].lower().split("_")
    return next((what for what, names in ATTENTION_NORMS.items()
                 if any(re.fullmatch(names, part) for part in parts)), None)


def squashing(module: nn.Module) -> Optional[str]:
    """Returns "dyt" or "derf" for a module of SQUASHING, or None."""
    name = type(module).__name__
    return next((k for k, names in SQUASHING.items() if re.fullmatch(names, name, re.I)), None)


def is_norm(name: str, module: nn.Module) -> bool:
    """Whether a module normalizes rows, or squashes values instead, by the name of its class or its own name."""
    def has_name() -> bool:
        has_parameters = any(True for _ in module.parameters())
        return has_parameters and NORM_NAME.search(name.rpartition(".")[2]) is not None

    return is_norm_class(module) or may_normalize_rows(module) and (squashing(module) is not None or has_name())


def is_of_other_axes(module: Optional[nn.Module]) -> bool:
    """Whether the name of a norm's class says that its statistics are not those of rows."""
    return re.search("batch|group|instance", type(module).__name__, re.I) is not None


def is_projection(module: Optional[nn.Module]) -> bool:
    weight = getattr(module, "weight", None)
    return isinstance(module, nn.MultiheadAttention) or (
        isinstance(weight, Tensor) and weight.dim() == 2 and not isinstance(module, nn.Embedding))


def output_dim(module: nn.Module) -> int:
    """Returns the output dimension of a projection's weight: 1 for GPT-2's Conv1D, else 0."""
    return 1 if type(module).__name__ == "Conv1D" else 0


def kinds_within(module: nn.Module) -> str:
    names = [f"{n} ({type(m).__name__})" for n, m in module.named_modules() if n]
    return ", ".join(names[:40]) + (", …" if len(names) > 40 else "") if names else "no modules in it"


def first_tensor(values: Any) -> Optional[Tensor]:
    """Returns the first floating-point tensor of two dimensions or more in `values`."""
    return next((t for t in tensors_in(values) if t.is_floating_point() and t.dim() > 1), None)
