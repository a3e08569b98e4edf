"""Recognizes attention, projections and their weights by their names."""

from __future__ import annotations

import re
from typing import Optional

from torch import Tensor, nn

ATTENTION = re.compile(r"attn|attention|mha", re.I)
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


def is_projection(module: Optional[nn.Module]) -> bool:
    weight = getattr(module, "weight", None)
    return isinstance(module, nn.MultiheadAttention) or (
        isinstance(weight, Tensor) and weight.dim() == 2 and not isinstance(module, nn.Embedding))
