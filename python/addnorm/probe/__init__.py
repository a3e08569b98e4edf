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

What is observed are PyTorch's operators, and not names: which linear maps read the stream, where tokens
meet, what divides a row by its size, what is added to what. So norms and attention may be modules or
functions, layers may take and give any arguments, run side by side, share their weights, or stand in a list
that is not called. Names only tell what a weight is for, and which layers there are.

How it works: a Recorder (recorder.py) hears of each operator. A Flow (flow.py) follows the stream through
them and finds linear maps and sums, with a NormFinder (norm_finder.py) for the norms; where sublayers read rows
of a larger state, a LaneFlow (lane_flow.py) takes its place, which knows sums of several lanes. An Arranger
(sublayers.py) gives each sum its norms and its branch, and a Measurement (measure.py, norms.py, gradients.py)
says what is measured of them. The numbers themselves are computed by fit/: on the model's device, for tensors of
one shape together, and read in one transfer at the end of the step. Declared (recipe.py) is what the code says
of itself.

A line of the profile is one point of one layer: the stream `x` that a sublayer reads, the norm `before` it,
its `branch`, the norm `inside` the residual, the `sum`, the norm `after` it. A `sum` also says what it is
made of (from_x·x + from_before·h + from_branch·f) and how much of its gradient arrives at its parts, and a
norm's output what kind of norm made it. python/README.md lists the keys.

Needs PyTorch 1.13 or newer.
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence, Union

from torch import nn

from .model_probe import Probe
from .find.layers import ProbeError

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
