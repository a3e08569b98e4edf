"""The sizes of a model's weights, and whether they are those of before training."""

from __future__ import annotations

from typing import Any, Iterator

from torch import Tensor, nn

from ..._sharded import is_sharded
from ..._structure import entry, is_norm_class, is_within, parent_of
from .structure import is_linear_map
from .subject import Subject
from .tensors import rms

MOST_VALUES = 2**20  # number of values from which a size is measured


def token_table(subject: Subject) -> Any:
    """Returns the embedding of tokens if the model names it, as classes of transformers do."""
    return getattr(subject.model, "get_input_embeddings", lambda: None)()


def matrices_of(subject: Subject) -> Iterator[tuple[str, Tensor]]:
    """Yields the weights of linear maps and embeddings, with their names."""
    for name, parameter in subject.parameters.items():
        module = subject.model.get_submodule(parent_of(name))
        is_weight = isinstance(module, nn.Embedding) or is_linear_map(module)
        if is_weight and name.endswith("weight") and parameter.dim() == 2 and parameter.is_floating_point():
            yield name, parameter


def gains_of(subject: Subject) -> dict[str, Tensor]:
    """Returns the parameters of norms that are not biases."""
    return {name: p.detach() for name, p in norm_vectors(subject) if p.numel() > 1 and not name.endswith("bias")}


def norm_vectors(subject: Subject) -> Iterator[tuple[str, Tensor]]:
    """Yields the vectors of norms, with their names."""
    return ((name, p) for name, p in subject.parameters.items()
            if p.dim() == 1 and not is_sharded(p) and is_norm_class(subject.model.get_submodule(parent_of(name))))


def size_of(weight: Tensor) -> float:
    """Returns the root mean square of a weight's nonzero values. Large weights are sampled."""
    values = weight.detach().flatten()[::1 + weight.numel() // MOST_VALUES]
    return rms(values[values != 0])


def has_trained_gains(subject: Subject) -> bool:
    """Returns whether the gains of a norm differ. Before training, they have one value."""
    return any(bool((p != p.flatten()[0]).any()) for p in gains_of(subject).values())


def has_initial_weights(subject: Subject) -> bool:
    """Returns whether all biases of linear maps are 0, and all gains of a norm the same."""
    biases = [m.bias for m in subject.names
              if isinstance(getattr(m, "bias", None), nn.Parameter) and not is_norm_class(m)]
    return len(biases) + len(gains_of(subject)) > 1 and not any(bool(b.any()) for b in biases) \
        and not has_trained_gains(subject)


def follows_range(subject: Subject) -> bool:
    """Returns whether most matrices are as large as the configuration's initializer_range."""
    usual = entry(subject.config, "initializer_range")
    sizes = [size_of(parameter) for _, parameter in matrices_of(subject)]
    return isinstance(usual, float) and usual > 0 and \
        2 * sum(abs(size / usual - 1) < 0.1 for size in sizes) > len(sizes)


def has_zeros(subject: Subject, place: str) -> bool:
    """Returns whether a matrix of a module is 0."""
    return any(is_within(name, place) and not bool(parameter.any()) for name, parameter in matrices_of(subject))
