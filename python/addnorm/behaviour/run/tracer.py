"""Traces the gradient of one token of the output back to the modules and inputs that it reads."""

from __future__ import annotations

import functools
from typing import Any, Callable, NamedTuple, Sequence

import torch
from torch import Tensor, nn

from ..._structure import entry, tensors_in
from ..._undo import Undo
from .subject import Subject, Unmeasured
from .targets import Targets
from .tensors import leading, main_output

# Limits of a share. Rounding leaves 1e-6 where values cancel, as in convolutions by Fourier transforms.
LIMIT, LIMIT_16_BIT = 1e-5, 1e-3


class Focus(NamedTuple):
    """The token of the output at which the gradient starts."""

    shape: tuple[int, ...]  # the output's first dimensions: two, or one if it has no tokens
    at: tuple[int, ...]

    def matches(self, x: Any) -> bool:
        return (isinstance(x, Tensor) and x.is_floating_point() and x.dim() > len(self.shape)
                and leading(x)[:len(self.shape)] == self.shape)

    def cut(self, gradient: Tensor) -> Tensor:
        kept = torch.zeros_like(gradient)
        kept[self.at] = gradient[self.at]
        return kept

    def energy(self, gradient: Tensor) -> Tensor:
        """Returns the square of the gradient by sequence and token, divided by its sum."""
        largest = gradient.abs().max()
        if not largest > 0:
            return torch.zeros(self.shape)
        square = (gradient / largest).float().square().flatten(len(self.shape)).sum(-1)
        return (square / square.sum()).cpu()


class Input:
    """An input of the model: an embedding's output, or a batch of vectors."""

    def __init__(self, index: Tensor | None) -> None:
        self.index = index
        self.energy: Tensor | None = None

    def counts_up(self) -> bool:
        """Returns whether it is embedded by an index 0, 1, 2 …"""
        return self.index is not None and bool((self.index.flatten().diff() == 1).all())


class _Boundary(torch.autograd.Function):
    """The identity. Its backward returns passes(gradient)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, passes: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.passes = passes
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return ctx.passes(gradient), gradient.new_zeros(()), None


class Tracer:
    """Puts boundaries around modules while a forward runs, and stores the energy of gradients that pass them."""

    def __init__(self, subject: Subject) -> None:
        self._subject, self._cuts = subject, False
        self._anchor: Tensor | None = None  # a leaf behind every boundary
        self._anchors: list[Tensor] = []
        self._is_outermost: dict[nn.Module, bool] = {}
        self._is_clean: dict[nn.Module, bool] = {}  # whether only its token at the focus has a gradient
        self.output: Tensor | None = None
        self.has_logits = False  # whether the output is named logits
        self.focus = Focus((), ())
        self.inputs: list[Input] = []
        self.stages: dict[nn.Module, Tensor] = {}  # energy of the gradient of each module's input

    # Forward: the shape of the output is known only at its end, so all modules get boundaries.

    def _mark(self, x: Any, passes: Callable[[Tensor], Tensor]) -> Any:
        if not isinstance(x, Tensor) or not x.is_floating_point() or x.dim() < 2:
            return x
        if self._anchor is None or self._anchor.device != x.device:
            self._anchor = torch.zeros((), device=x.device, requires_grad=True)
            self._anchors.append(self._anchor)
        return _Boundary.apply(x, self._anchor, passes)

    def _mark_input(self, x: Any, index: Tensor | None) -> Any:
        self.inputs.append(Input(index))
        return self._mark(x, functools.partial(self._pass_input, self.inputs[-1]))

    def _read(self, module: nn.Module, inputs: Any, named: dict[str, Any] | None = None) -> Any:
        inputs = tuple(self._mark_input(x, None) for x in inputs)
        if named is None:
            return inputs
        return inputs, {key: self._mark_input(x, None) for key, x in named.items()}

    def _enter(self, module: nn.Module, inputs: Any, named: dict[str, Any] | None = None) -> Any:
        passes = functools.partial(self._pass_in, module)
        if inputs and isinstance(inputs[0], Tensor):
            x, marked = inputs[0], self._mark(inputs[0], passes)
            inputs = tuple(marked if y is x else y for y in inputs)  # self-attention reads one tensor several times
        elif named and isinstance(named.get("hidden_states"), Tensor):
            named = {**named, "hidden_states": self._mark(named["hidden_states"], passes)}
        return inputs if named is None else (inputs, named)

    def _leave(self, module: nn.Module, inputs: Any, output: Any) -> Any:
        self._is_outermost[module] = not any(m in self._hooked for m in self._subject.runs[-1].inside[:-1])
        passes = functools.partial(self._pass_out, module)
        if type(output) is tuple and output:
            return (self._mark(output[0], passes), *output[1:])
        return self._mark(output, passes)

    def _embed(self, module: nn.Module, inputs: Any, output: Any) -> Any:
        return self._mark_input(output, next(tensors_in(inputs), None))

    def forward(self, watch: Sequence[Callable[..., None]] = ()) -> None:
        """Runs one evaluation with boundaries at stages and inputs."""
        subject = self._subject
        inner = list(subject.names)[1:]
        self._hooked = {m for m in inner if isinstance(m, nn.RNNBase) or list(m.children()) or _calls_functions(m)}
        with Undo() as hooks:
            for module in inner:
                if type(module) is nn.Embedding:
                    hooks.hook(module, "forward", self._embed)
            hooks.hook(subject.model, "forward_pre", self._read, self._read)
            for module in self._hooked:
                hooks.hook(module, "forward_pre", self._enter, self._enter)
                hooks.hook(module, "forward", self._leave)
            output = subject.run(watch=watch)
        self.output, self.has_logits = main_output(output), entry(output, "logits") is not None

    # Backward

    def _pass_input(self, found: Input, gradient: Tensor) -> Tensor:
        if not self._cuts and self.focus.matches(gradient):
            found.energy = self.focus.energy(gradient)
        return gradient

    def _pass_out(self, module: nn.Module, gradient: Tensor) -> Tensor:
        """Cuts the gradient to the token at the focus. It does so only if the gradient of the module's output is 0 at
        all other tokens. Otherwise the module is part of another one, as a projection is part of attention, and its
        gradient is not changed. An outermost module of this kind reads a memory with other tokens, and its gradient
        becomes 0."""
        if not self._cuts or not self.focus.matches(gradient):
            return gradient
        self._is_clean[module] = not _elsewhere(self.focus.energy(gradient), self.focus.at)
        if self._is_clean[module]:
            return self.focus.cut(gradient)
        return torch.zeros_like(gradient) if self._is_outermost[module] else gradient

    def _pass_in(self, module: nn.Module, gradient: Tensor) -> Tensor:
        if not self._cuts or not self._is_clean.get(module) or not self.focus.matches(gradient):
            return gradient
        energy = self.focus.energy(gradient)
        before = self.stages.get(module)
        self.stages[module] = energy if before is None else torch.maximum(before, energy)
        return self.focus.cut(gradient)

    def backward(self, targets: Targets | None) -> None:
        """Computes the energies of inputs and stages."""
        output = self.output
        if output is None or not output.requires_grad:
            raise Unmeasured("the output has no gradient")
        self.focus = _focus(output, targets, self._subject)
        start = output[self.focus.at].float()
        direction = torch.randn(start.shape, generator=torch.Generator().manual_seed(1))
        scalar = (start * direction.to(start.device)).sum()
        for cuts in False, True:
            self._cuts = cuts
            torch.autograd.grad(scalar, self._anchors, retain_graph=not cuts, allow_unused=True)
        self.output = output.detach()


def _focus(output: Tensor, targets: Targets | None, subject: Subject) -> Focus:
    """Returns a token in the middle of the output, with tokens before and after it."""
    shape = leading(output) if output.dim() > 2 else leading(output)[:1]
    if output.dim() > 3 or not shape or output.numel() == 0:
        raise Unmeasured(f"an output of shape {tuple(output.shape)} has no tokens")
    if len(shape) == 1 and not any(t.shape[0] == shape[0] and t.dim() > 1 + t.is_floating_point()
                                   for t in tensors_in((subject.inputs, subject.named)) if t.dim()):
        raise Unmeasured("the batch has no dimension of sequences, or another one than the output")
    if max(shape) < 2:
        raise Unmeasured("one token of one sequence")
    return Focus(shape, _asked_token(shape, targets, subject) or tuple(n // 2 for n in shape))


def _asked_token(shape: tuple[int, ...], targets: Targets | None, subject: Subject) -> tuple[int, ...] | None:
    """Returns a token with a target of the loss in the longest sequence, which has the least padding, or None."""
    mask = subject.named.get("attention_mask")
    kept = mask if isinstance(mask, Tensor) and tuple(mask.shape) == shape else torch.ones(shape)
    asked = kept.cpu() > 0
    if targets is not None and tuple(targets.where.shape) == shape:
        asked &= targets.where.cpu()
    if not bool(asked.any()) or len(shape) < 2:
        return None
    is_tokens_first = targets is not None and targets.time == 0
    sequence, token = _middle_of_longest(asked.T if is_tokens_first else asked)
    return (token, sequence) if is_tokens_first else (sequence, token)


def _middle_of_longest(asked: Tensor) -> tuple[int, int]:
    count = asked.sum(1)
    longest = (count == count.max()).nonzero().flatten()
    sequence = int(longest[len(longest) // 2])
    found = asked[sequence].nonzero().flatten()
    return sequence, int(found[len(found) // 2])


def _calls_functions(module: nn.Module) -> bool:
    """Returns whether a module has several matrices of its own, as a layer that calls functions of its parameters."""
    return sum(p.dim() > 1 for p in module.parameters(recurse=False)) > 1


def _elsewhere(energy: Tensor, at: tuple[int, ...]) -> bool:
    others = energy.clone()
    others[at] = 0
    return bool(others.sum() > LIMIT**2)
