"""Embeddings and heads that should share one weight, by the configuration or by their equal values."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..._sharded import local_part
from ..._structure import entry
from ..run.subject import Subject
from ..run.tensors import relative_difference


def measure_ties(subject: Subject) -> None:
    """Adds tying-broken: the number of parameters that hold one matrix, if embedding and head should share it by the
    configuration or by their equal values."""
    pair = _declared_pair(subject) if entry(subject.config, "tie_word_embeddings") else None
    if pair is not None and not _share(*pair):
        subject.add_line("tying-broken", 2, limit=1, where=_name_of(subject, pair[1]),
                         declared="config.tie_word_embeddings",
                         detail=f"they differ by {100 * relative_difference(*pair):.2g} %")
        return
    if entry(subject.config, "torchscript"):  # it has two parameters over one memory on purpose
        return
    embeddings = [subject.parameters.get(f"{name}.weight", m.weight) for m, name in subject.names.items()
                  if isinstance(m, nn.Embedding)]
    for name, other in subject.parameters.items():
        if any(other is weight for weight in embeddings):
            continue
        same = [w for w in embeddings if w.shape == other.shape and torch.equal(local_part(w), local_part(other))]
        if any(bool((local_part(w) != local_part(w).flatten()[0]).any()) for w in same):
            subject.add_line("tying-broken", 2, limit=1, where=name, detail="they share their memory"
                             if any(_share(w, other) for w in same) else "their values are equal")


def _share(a: Tensor, b: Tensor) -> bool:
    return a is b or local_part(a).data_ptr() == local_part(b).data_ptr()


def _declared_pair(subject: Subject) -> tuple[Tensor, Tensor] | None:
    """Returns the weights of the embedding and the head, by the methods that transformers has for them. Without these
    methods, returns those of the only embedding and linear map that could share a weight."""
    model = subject.model
    inputs, outputs = (getattr(model, f"get_{kind}_embeddings", lambda: None)() for kind in ("input", "output"))
    if inputs is None and outputs is None:
        outside = [m for name, m in model.named_modules() if not subject.layer_of(name)]
        tables = [m for m in outside if type(m) is nn.Embedding]
        heads = [m for m in outside if type(m) is nn.Linear and m.in_features != m.out_features]
        pairs = [(e, h) for e in tables for h in heads if e.weight.shape == h.weight.shape]
        inputs, outputs = pairs[0] if len(pairs) == 1 else (None, None)
    a, b = (getattr(m, "weight", None) for m in (inputs, outputs))
    return (a, b) if a is not None and b is not None and a.shape == b.shape else None


def _name_of(subject: Subject, parameter: Tensor) -> str:
    return next((n for n, p in subject.parameters.items() if p is parameter), "head")
