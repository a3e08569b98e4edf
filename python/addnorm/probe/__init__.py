"""Looks inside a PyTorch Transformer while it runs, and writes what it saw as a profile.

    from addnorm.probe import probe

    p = probe(model, every=100)             # finds the layers
    for batch in batches:
        with p:                             # measures the first forward and backward of each 100th
            loss = model(batch).loss
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    p.write("profile.jsonl")                # then: addnorm doctor profile.jsonl

addnorm.check() and addnorm.watch() do this and judge what was seen. The model stays as it is: outputs and
gradients keep their bits, and outside `with` no hook is left and no time lost.

PyTorch's operators are observed, and not names: which linear maps read the stream, where tokens meet, which values are
divided by their size, and which are added. So norms and attention may be modules or functions, and layers may take any
arguments, run side by side, share their weights, or stand in a list that is not called. Names only tell the purpose of
a weight, and which layers there are.

How it works, in four rooms. Each uses only those before it; lanes alone are found by fitting:

    record/   writes a forward pass into a Graph (graph.py): operators, values, calls of modules
    find/     finds in the graph the layers and the streams (layers.py, streams.py), and on a stream the linear maps and
              branches (flow.py), norms (norms.py), sums (sums.py), lanes (lane_flow.py) and sublayers (sublayers.py)
    fit/      computes numbers of values on the model's device, for tensors of one shape together; all numbers of a step
              are read in one transfer (batch.py)
    measure/  chooses the values of each site, requests their fits and gradients, and writes the lines of a profile;
              declared.py reads what the code of a model says of itself

A new kind of norm would be recognized in find/norms.py, fitted in fit/norms.py, written in measure/norms.py, and judged
by a rule of src/doctor.

A line of the profile is one point of one layer: the stream `x` that a sublayer reads, the norm `before` it,
its `branch`, the norm `inside` the residual, the `sum`, the norm `after` it. A `sum` also says what it is
made of (from_x·x + from_before·h + from_branch·f) and how much of its gradient arrives at its parts, and a
norm's output what kind of norm made it. python/README.md lists the keys.

Needs PyTorch 1.13 or newer.
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence, Union

from torch import nn

from .find.layers import ProbeError
from .model_probe import Probe

__all__ = ["Probe", "ProbeError", "probe"]


def probe(model: nn.Module, *, layers: Union[str, Sequence[nn.Module], None] = None,
          attention: Union[str, Sequence[str]] = (), feed_forward: Union[str, Sequence[str]] = (),
          every: int = 1, recipe: Optional[Dict[str, Any]] = None,
          batch_first: Optional[bool] = None, tokens: int = 4096) -> Probe:
    """A Probe of `model`, to be used with `with`, or by its method run().

    layers        where the layers stand, e.g. "transformer.h", or the layers themselves
    attention     weights in a layer that are attention, e.g. "attn" or ["q", "k", "v", "proj"]; needed only
                  where tokens meet in no product
    feed_forward  the same
    every         measure one `with` of so many
    recipe        what is known of the model, for the profile's first line: it goes before what the
                  probe finds, e.g. {"placement": "depth-scaled", "initialization": "gpt2"}
    batch_first   whether activations are [batch, length, d_model], not [length, batch, d_model]
    tokens        measure values of at most so many tokens, evenly chosen; gradients of all
    """
    return Probe(model, layers, attention, feed_forward, every, recipe or {}, batch_first, tokens)
