"""Every arrangement of residual connections and norms, around any sublayers."""

from __future__ import annotations

import json
from typing import Any, Iterable, List, Optional

import torch
from torch import Tensor, nn

from .. import _core
from .functions import checked_count
from .mixes import weighted_sum
from .sites import NormMaker, Read, Site, Stream, arrangement, make_slot, reset


class Layer(nn.Module):
    """The sites of one layer, `attention_add_norm` and `feed_forward_add_norm`, or only the first."""

    def forward(self, stream: Stream, **kwargs: Any) -> Stream:
        for site in self.children():
            stream = site(stream, **kwargs)
        return stream


class Stack(nn.Module):
    """Sublayers in an arrangement of residual connections and norms: read, run, carry, write.

        X  = enter·x                         the lanes of the stream; most arrangements have one
        z  = a·R(X)                          read
        u  = update(inside(F(before(z))))    run a sublayer F
        X' = after(A·X + b ⊗ u)              carry and write
        y  = final_norm(c·R(X))              at the end

    sublayers: modules that map (…, d_model) to (…, d_model), in order. Each two make a layer: an attention, or another
    module that mixes tokens, then a feed-forward. If a module returns a tuple, its first entry is the output.
    placement: a name of Stack.placements(), or a description such as "post/pre" (attention post, feed-forward pre) or
    "post:3+pre" (3 layers post, the rest pre).
    norm: "layer", "rms", or a function of the width that returns a module.
    lanes: the number of lanes at the start; None: the usual number of the placement.
    dropout: the probability of each feature of u to become 0 in training.
    final_norm: whether the stack ends with a norm; None: as the placement.

    Sublayers keep their own initial weights; `initial_gain` of a site is the placement's factor for them.
    docs/arrangements.md lists the names of parameters. Raises addnorm.Error for an arrangement that does not exist.
    """

    def __init__(self, sublayers: Iterable[nn.Module], placement: str = "pre", *, d_model: int,
                 norm: NormMaker = "layer", lanes: Optional[int] = None, dropout: float = 0.0,
                 final_norm: Optional[bool] = None, device: Any = None, dtype: Optional[torch.dtype] = None) -> None:
        super().__init__()
        modules, width = list(sublayers), checked_count("d_model", d_model)
        for i, module in enumerate(modules):
            if not isinstance(module, nn.Module):
                raise TypeError(f"sublayers[{i}] is of type {type(module).__name__}, must be a torch.nn.Module")
        if not modules or len(modules) % 2:
            raise _core.Error(f"sublayers has {len(modules)} modules, must have an even number: two for each layer")
        if not isinstance(placement, str):
            raise TypeError(f"placement is {placement!r}, must be a string")
        layers, asked = len(modules) // 2, 0 if lanes is None else checked_count("lanes", lanes)
        form = arrangement(placement, layers, asked, width)
        factory = {"device": device, "dtype": dtype}
        self.placement, self.form, self.d_model = placement, form, width
        self.entry_norm = make_slot(form["entry"], norm, form["features"], factory)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        for site in form["sites"]:
            layer, is_second = site["layer"], site["sublayer"] == "feed_forward"
            first = 2 * (layer - 1) + is_second
            self.layers[layer - 1].add_module(site["name"].split(".")[-1], Site(
                modules[first:first + site["sublayers"]], placement, d_model=width, norm=norm, lanes=lanes,
                dropout=dropout, layer=layer, layers=layers, feed_forward=is_second, **factory))
        self.exit = Read(form["exit"], norm, **factory)
        has_final_norm = form["final_norm"] != "nothing" if final_norm is None else final_norm
        self.final_norm = make_slot("norm" if has_final_norm else "nothing", norm, width, factory)

    @staticmethod
    def placements() -> List[str]:
        """Returns the names of all arrangements, in the order of `addnorm placements`."""
        names: List[str] = json.loads(_core.arrangement_names())
        return names

    @property
    def sites(self) -> List[Site]:
        """The Add & Norm of each sublayer, in order."""
        return [site for layer in self.layers for site in layer.children() if isinstance(site, Site)]

    def reset_parameters(self) -> None:
        """Sets the initial values of the arrangement. Sublayers keep theirs."""
        reset(self.entry_norm, *self.sites, self.exit, self.final_norm)

    def forward(self, x: Tensor, **kwargs: Any) -> Tensor:
        """Returns y, of x's shape (…, d_model). Each sublayer gets those of kwargs that its forward takes."""
        if x.shape[-1:] != (self.d_model,):
            raise _core.Error(f"x has the shape {tuple(x.shape)}, must end with d_model, {self.d_model}")
        for name in kwargs:
            if not any(name in names or "**" in names for site in self.sites for names in site.arguments):
                raise TypeError(f"the argument {name!r} is taken by no sublayer's forward")
        stream = self.enter(x)
        for layer in self.layers:
            stream = layer(stream, **kwargs)
        y: Tensor = self.exit(stream)
        return y if self.final_norm is None else self.final_norm(y)

    def enter(self, x: Tensor) -> Stream:
        """Returns the lanes at the start: copies of x with constant factors, or parts of it. The first may be
        normalized."""
        factors, features = self.form["enter"], self.form["features"]
        parts = x.split(features, -1) if features < self.d_model else [x] * len(factors)
        lanes = [weighted_sum([factor], [part]) for factor, part in zip(factors, parts)]
        if self.entry_norm is not None:
            lanes[0] = self.entry_norm(parts[0])
        return Stream(torch.stack(lanes, -2) if len(lanes) > 1 else tuple(lanes))
