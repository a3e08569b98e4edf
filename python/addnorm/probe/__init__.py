"""Measures a PyTorch Transformer while it runs, and writes the measurements as a profile.

    from addnorm.probe import probe

    p = probe(model, every=100)             # find the layers
    for batch in batches:
        with p:                             # measure the first forward and backward of every 100th batch
            loss = model(batch).loss
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    p.write("profile.jsonl")                # then: addnorm doctor profile.jsonl

addnorm.check() and addnorm.watch() run a probe and judge its profile. The probe does not change the bits of outputs and
gradients. Outside `with` it leaves no hooks and costs no time.

The probe observes PyTorch's operators. It finds the linear maps that read the stream, the operators that mix tokens,
the values that are divided by their size, and the sums. So norms and attention may be modules or functions. Layers may
take any arguments, run in parallel, share their weights, or be in a list that is not called. Names serve only to find
the layers and the purpose of a weight.

The code has four parts. Each uses only the ones above it:

    record/   records a forward pass as a Graph (graph.py): operators, values, calls of modules
    fit/      computes numbers on the model's device, in one batch for tensors of one shape; all numbers of a step are
              read in one transfer (batch.py)
    find/     finds the layers and the streams of the graph (layers.py, streams.py), and for each stream its linear maps
              and branches (flow.py), norms (norms.py), sums (sums.py), lanes (lane_flow.py, site_flow.py) and sublayers
              (sublayers.py); paths.py follows values back; lanes are found by fits
    measure/  chooses the values of each site, requests their fits and gradients, and writes the lines of a profile;
              declared.py reads the declarations of the model's code, placement.py infers the placement

The types that carry the data, in the order of its way:

    Recording → Graph(Op | Enter | Leave, over Value)
    find_layers → Element; RunFinder → LayerRun, Place
    StreamFinder → Flow(StreamValues, NormFinder → Norm, SumFinder → Sum(Branch(Linear))) → Arranger → Sublayer
                 → Stream → Found
    StreamMeasurement → Fits → {Site: Numbers} → profile_text

HACKING.md, "To add a norm", lists the places that recognize, fit and judge a kind of norm.

A line of the profile describes one point of one layer: the stream `x` that a sublayer reads, the norm `before` it,
its `branch`, the norm `inside` the residual, the `sum`, or the norm `after` it. The line of a `sum` also has the
factors of its parts (from_x·x + from_before·h + from_branch·f), and the share of its gradient that arrives at each
part. The line of a norm's output has the kind of norm. python/README.md lists the keys.

The probe needs PyTorch 1.13 or newer.
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
    """Returns a Probe of `model`. Use it in a `with` statement, or call its method run().

    layers        the name of the list of layers, e.g. "transformer.h", or the layers themselves
    attention     the names of a layer's attention weights, e.g. "attn" or ["q", "k", "v", "proj"]; needed only
                  if no product of activations mixes tokens
    feed_forward  the names of a layer's feed-forward weights
    every         the probe measures one of `every` uses of `with`
    recipe        facts about the model for the profile's first line; they override the probe's own findings,
                  e.g. {"placement": "depth-scaled", "initialization": "gpt2"}
    batch_first   True if activations are [batch, length, d_model], False if they are [length, batch, d_model]
    tokens        the most tokens whose values are measured, evenly spaced; gradients are measured for all
    """
    return Probe(model, layers, attention, feed_forward, every, recipe or {}, batch_first, tokens)
