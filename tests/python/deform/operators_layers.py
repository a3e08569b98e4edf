"""Operators on embeddings, feed-forwards, norms, residual connections and the output."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .catalog import NotApplicable, Scope, operator
from .parts import Linear, Target, wrap

TRAINED = "trained values have no size that they must have"
FACTORS = (0.5, 2.0, 5.0)


def _count(whole: int, part: float) -> int:
    return max(1, round(whole * part))


# -- Embeddings --


@operator("ETZ", "embedding", "input_initialization", values=(0.1, 0.3, 0.5), in_layers=False,
          sight="rows or columns of zeros in a weight",
          rules="weight-zeros")
def zero_embeddings(target: Target, value: float) -> None:
    """The embeddings of some tokens are set to zero."""
    weight = target.parts.words.weight
    weight[:_count(len(weight), value)] = 0


@operator("ESW", "embedding", "input_type", values=(0.1, 0.3, 0.5), in_layers=False, scope=Scope.NEVER,
          why="the rows of an embedding have no order that a model shows")
def swap_embeddings(target: Target, value: float) -> None:
    """The embeddings of some tokens are exchanged in pairs."""
    weight = target.parts.words.weight
    n = min(_count(len(weight), value), len(weight) // 2)
    weight[:2 * n] = torch.cat([weight[n:2 * n], weight[:n]])


@operator("ESS", "embedding", "input_type", values=FACTORS, in_layers=False, scope=Scope.FRESH, why=TRAINED,
          sight="size of weights against initializer_range or the other layers",
          rules="initial-size")
def scale_types(target: Target, value: float) -> None:
    """The embeddings of segments are multiplied by a factor."""
    if target.parts.types is None:
        raise NotApplicable("the model has no embeddings of segments")
    target.parts.types.weight.mul_(value)


@operator("EZD", "embedding", "input_dimension", values=(0.1, 0.3, 0.5), in_layers=False,
          sight="rows or columns of zeros in a weight",
          rules="weight-zeros")
def zero_features(target: Target, value: float) -> None:
    """Some neighbouring features of all token embeddings are set to zero."""
    weight = target.parts.words.weight
    weight[:, :_count(weight.shape[1], value)] = 0


# -- Feed-forwards --


def _feed_forwards(target: Target) -> list[Linear]:
    return [linear for layer in target.layers for linear in (layer.up, layer.down)]


@operator("FSW", "ffn", "weight_scaling", values=FACTORS, scope=Scope.UNLIKE, why=TRAINED,
          sight="size of weights against initializer_range or the other layers",
          rules="initial-size size-odd")
def scale_feed_forward(target: Target, value: float) -> None:
    """Both matrices of the feed-forward are multiplied by a factor."""
    for linear in _feed_forwards(target):
        linear.weight.mul_(value)


@operator("FDN", "ffn", "neuron_dropout", values=(0.1, 0.3, 0.5), sight="rows or columns of zeros in a weight",
          rules="weight-zeros")
def drop_neurons(target: Target, value: float) -> None:
    """Some neurons of the feed-forward lose their weights on both sides, for good."""
    for layer in target.layers:
        n = _count(len(layer.up.weight), value)
        for tensor in layer.up.tensors:
            tensor[:n] = 0
        layer.down.weight[:, :n] = 0


@operator("FCA", "ffn", "activation_function", values=("relu", "gelu", "tanh", "sigmoid"),
          rules="activation-changed", sight="activation that runs against the configuration's")
def replace_activation(target: Target, value: str) -> None:
    """The feed-forward has another activation than the configuration says."""
    config = target.parts.model.config
    declared = [getattr(config, name, None) for name in ("hidden_act", "activation", "activation_function")]
    if value in declared:
        raise NotApplicable("the activation is that of the configuration")
    for layer in target.layers:
        owner, name = layer.activation
        setattr(owner, name, {"relu": nn.ReLU, "gelu": nn.GELU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}[value]())


@operator("FRG", "ffn", "regularization", values=(0.0, 1e-2, 1e-1),
          sight="weight decay of some matrices against that of the others",
          rules="decay-uneven")
def replace_decay(target: Target, value: float) -> None:
    """The matrices of feed-forwards get another weight decay than the other matrices."""
    matrices = {id(linear.module.weight) for linear in _feed_forwards(target)}
    _decay(target, matrices, value)


@operator("FWI", "ffn", "weight_initialization", values=("zeros", "uniform", "constant_one"),
          scopes={"uniform": Scope.UNLIKE}, why="uniform weights: " + TRAINED,
          rules="initial-size size-odd gradient-zero idle-sublayer",
          sight="size of weights against initializer_range or the other layers")
def initialize_otherwise(target: Target, value: str) -> None:
    """Both matrices of the feed-forward get other initial values: zeros, uniform ones, or ones."""
    for linear in _feed_forwards(target):
        linear.weight.uniform_(-0.02, 0.02) if value == "uniform" else linear.weight.fill_(value != "zeros")


def _decay(target: Target, chosen: set[int], value: float) -> None:
    """Moves the chosen parameters to a group of the optimizer with this weight decay."""
    groups = target.optimizer.param_groups
    if all(group["weight_decay"] == value for group in groups
           if any(id(p) in chosen for p in group["params"])):
        raise NotApplicable("the weight decay is the one that it has")
    moved = [p for group in groups for p in group["params"] if id(p) in chosen]
    for group in groups:
        group["params"] = [p for p in group["params"] if id(p) not in chosen]
    target.optimizer.add_param_group({"params": moved, "weight_decay": value})


# -- Norms --


@operator("NSG", "layernorm", "scale_parameter", values=FACTORS, scope=Scope.UNLIKE, why=TRAINED,
          rules="initial-size size-odd gamma-form", sight="γ against 1 before training, or against the other norms")
def scale_gain(target: Target, value: float) -> None:
    """γ is multiplied by a factor."""
    for norm in target.norms:
        norm.weight.mul_(value)


@operator("NZG", "layernorm", "scale_parameter", rules="gradient-zero dead-norm", sight="γ of zeros")
def zero_gain(target: Target, value: Any) -> None:
    """γ is set to zero."""
    for norm in target.norms:
        norm.weight.zero_()


@operator("NSB", "layernorm", "bias_parameter", values=(0.5, 1.0, 2.0),
          sight="β whose mean over features is large beside its deviation",
          rules="initial-size bias-off-zero")
def shift_bias(target: Target, value: float) -> None:
    """A number is added to all values of β."""
    for norm in target.norms:
        norm.bias.add_(value)


@operator("NCE", "layernorm", "stability_parameter", values=(1e-4, 1e-2, 1.0),
          rules="epsilon-size epsilon-odd epsilon-place epsilon-unusual epsilon-large unlike-config",
          sight="ε of the modules against the configuration's")
def replace_epsilon(target: Target, value: float) -> None:
    """ε is another number than the configuration says."""
    for norm in target.norms:
        norm.eps = value


@operator("NWD", "layernorm", "regularization", values=(1e-2, 1e-1, 1.0), rules="decay-on-gain",
          sight="weight decay of γ and β where biases have none")
def decay_norms(target: Target, value: float) -> None:
    """Weight decay applies to γ and β."""
    _decay(target, {id(p) for norm in target.norms for p in norm.parameters()}, value)


# -- Residual connections --


def _damage_sums(target: Target, change: Any) -> None:
    for layer in target.layers:
        layer.damage_sums(change)


@operator("RRS", "residual", "skip_connection", rules="residual-missing", sight="factor of x in a sum")
def remove_residual(target: Target, value: Any) -> None:
    """The stream is not added: a sublayer leaves its branch alone."""
    _damage_sums(target, torch.zeros_like)


@operator("RSR", "residual", "residual_scaling", values=FACTORS, rules="residual-factor residual-twice stream-changed",
          sight="factor of x in a sum")
def scale_residual(target: Target, value: float) -> None:
    """The stream is multiplied by a factor before the branch is added."""
    _damage_sums(target, lambda x: value * x)


@operator("RIN", "residual", "residual_path", values=(0.01, 0.1, 1.0),
          rules="gradient-factor sum-unexplained eval-noise",
          sight="noise in a sum")
def add_noise(target: Target, value: float) -> None:
    """Gaussian noise is added to the stream in each sum."""
    _damage_sums(target, lambda x: x + value * torch.randn_like(x))


@operator("RGC", "residual", "gradient_clipping", values=(0.1, 1.0, 10.0), in_layers=False, scope=Scope.NEVER,
          why="the threshold stands in the training loop, which the doctor is not given")
def replace_clipping(target: Target, value: float) -> None:
    """Gradients are clipped at another norm, in the training loop."""


@operator("RDR", "residual", "dropout_rate", values=(0.1, 0.3, 0.5),
          sight="rate of a dropout against the configuration's and the other layers'",
          rules="unlike-config")
def replace_dropout(target: Target, value: float) -> None:
    """The dropout of branches has another rate than the configuration says."""
    dropouts = [dropout for layer in target.layers for dropout in layer.branch_dropouts]
    if all(dropout.p == value for dropout in dropouts):
        raise NotApplicable("the rate is that of the configuration")
    for dropout in dropouts:
        dropout.p = value


# -- Output --


@operator("OSL", "output", "output_scaling", values=FACTORS, rules="logits-changed initial-loss", in_layers=False,
          sight="logits that differ from the head's weights times its input")
def scale_logits(target: Target, value: float) -> None:
    """The logits are multiplied by a factor."""
    wrap(target.parts.head, lambda plain, x: value * plain(x))


def _chosen_classes(target: Target, value: str) -> Tensor:
    """The numbers of classes: of the rarest tenth in the batch, of every second, or of all."""
    n = target.parts.head.out_features
    labels = target.batch["labels"].flatten()
    counts = torch.bincount(labels[labels >= 0], minlength=n)
    return {"rare": counts.argsort()[:_count(n, 0.1)], "balanced": torch.arange(0, n, 2),
            "all": torch.arange(n)}[value]


@operator("OZR", "output", "output_dimension", values=("rare", "balanced", "all"), in_layers=False,
          sight="rows or columns of zeros in a weight",
          rules="weight-zeros gradient-zero")
def zero_classes(target: Target, value: str) -> None:
    """The head's weights of some classes are set to zero: of rare ones, of half of them, or of all."""
    target.parts.head.weight[_chosen_classes(target, value)] = 0


@operator("ORI", "output", "output_type", values=("zeros", "xavier", "kaiming"), in_layers=False,
          scopes={"xavier": Scope.FRESH, "kaiming": Scope.FRESH}, why="other initial values: " + TRAINED,
          rules="initial-size gradient-zero initial-loss",
          sight="size of weights against initializer_range or the other layers")
def initialize_output(target: Target, value: str) -> None:
    """The head's weights are initialized anew: with zeros, or by Xavier's or Kaiming's rule."""
    weight = target.parts.head.weight
    {"zeros": nn.init.zeros_, "xavier": nn.init.xavier_uniform_, "kaiming": nn.init.kaiming_uniform_}[value](weight)


@operator("OOD", "output", "output_dimension", values=(-1, 1, 2), in_layers=False,
          sight="logits that differ from the head's weights times its input",
          rules="logits-changed")
def shift_classes(target: Target, value: int) -> None:
    """The logits are moved by some classes.

    The catalog speaks of a dimension or a mapping. Another dimension raises an error, so this is the mapping.
    """
    if value % target.parts.head.out_features == 0:
        raise NotApplicable("there are as many classes as they are moved by")
    wrap(target.parts.head, lambda plain, x: plain(x).roll(value, -1))
