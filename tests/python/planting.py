"""Plants bugs in models of any architecture: a different sum at one place of the stream, or a different norm.

The sums are found by following the stream's tensors through PyTorch's functions, from the inputs of a layer. A tensor
remains the stream through sums with tensors of its shape, and through functions that scale, cast or normalize it. The
probe uses a different method: it follows linear maps through operators.
"""

import functools
from typing import Any, Callable, Iterable, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

# Functions of the stream and of numbers or smaller tensors whose result is still the stream.
KEEPS = set("""mul div add sub true_divide multiply divide to type type_as float double half bfloat16 contiguous
clone dropout layer_norm rms_norm view reshape""".split())

SumOf = Callable[[Tensor, Tensor, Tensor, bool], Tensor]  # the arguments: stream x, its norm h, branch f, and
# whether the model is in training


class Stream(TorchFunctionMode):
    """While a model runs, counts the sums of its stream, and computes those in `sites` by `make`."""

    def __init__(self, make: Optional[SumOf] = None, sites: Optional[range] = None, training: bool = True):
        super().__init__()
        self.make, self.sites, self.training, self.count = make, sites, training, 0
        self._known: dict[int, Tensor] = {}  # kept alive, so that no other tensor gets the same id
        self._normed: Optional[Tensor] = None  # the last result of a norm of the stream

    def begin(self, values: Any) -> None:
        """Starts with the inputs of a layer."""
        for value in values:
            if isinstance(value, Tensor) and value.is_floating_point() and value.dim() > 1:
                self._known[id(value)] = value
                return

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", "").strip("_")
        name = name[1:] if name in ("iadd", "radd", "imul", "rmul", "idiv") else name
        tensors = [a for a in args if isinstance(a, Tensor)]
        mine = [t for t in tensors if id(t) in self._known]
        if name == "add" and len(tensors) == 2 and len(mine) == 1 and tensors[0].shape == tensors[1].shape:
            return self._sum(mine[0], next(t for t in tensors if t is not mine[0]),
                             lambda: function(*args, **(kwargs or {})))
        result = function(*args, **(kwargs or {}))
        if mine and name in KEEPS and isinstance(result, Tensor) and \
                result.numel() == mine[0].numel() and \
                all(t.numel() < result.numel() or id(t) in self._known for t in tensors):
            self._known[id(result)] = result
            if result.shape == mine[0].shape:
                self._normed = result
        return result

    def _sum(self, x: Tensor, f: Tensor, plain: Callable[[], Tensor]) -> Tensor:
        is_chosen = self.make is not None and self.sites is not None and self.count in self.sites
        h = x if self._normed is None else self._normed
        total = self.make(x, h, f, self.training) if is_chosen else plain()
        self.count += 1
        self._known[id(total)] = total
        self._normed = None
        return total


def follow(model: nn.Module, entries: Iterable[nn.Module], make: Optional[SumOf] = None,
           sites: Optional[range] = None) -> Callable[[], int]:
    """Makes the model run under a Stream, which starts with the inputs of the entries, the first layers of stacks.
    Returns a function that gives the number of sums in the last run."""
    stream = [Stream()]
    plain = model.forward

    @functools.wraps(plain)
    def forward(*args: Any, **named: Any) -> Any:
        stream[0] = Stream(make, sites, model.training)
        with stream[0]:
            return plain(*args, **named)

    model.forward = forward
    for entry in entries:
        _announce(entry, lambda values: stream[0].begin(values))
    return lambda: stream[0].count


def _announce(module: nn.Module, begin: Callable[[Any], None]) -> None:
    """Calls `begin` with the inputs of a module."""
    plain = module.forward

    @functools.wraps(plain)
    def forward(*args: Any, **named: Any) -> Any:
        begin([*args, *named.values()])
        return plain(*args, **named)

    module.forward = forward


SUMS: dict[str, tuple[str, SumOf]] = {  # a bug's name: its rule, the sum
    "residual missing": ("residual-missing", lambda x, h, f, _: f * 1),
    "residual twice": ("residual-twice", lambda x, h, f, _: x + x + f),
    "residual halved": ("residual-factor", lambda x, h, f, _: 0.5 * x + f),
    "branch twice": ("branch-factor", lambda x, h, f, _: x + 2 * f),
    "branch subtracted": ("branch-factor", lambda x, h, f, _: x - f),
    "norm over stream": ("norm-over-stream", lambda x, h, f, _: h + f),
    "residual detached": ("residual-detached", lambda x, h, f, _: x.detach() + f),
    "branch detached": ("branch-detached", lambda x, h, f, _: x + f.detach()),
    "dropout on stream": ("dropout-on-stream", lambda x, h, f, training: F.dropout(x + f, 0.2, training)),
}


# ---- Norms -----------------------------------------------------------------------------------


def is_norm(module: nn.Module) -> bool:
    name = type(module).__name__
    return isinstance(module, nn.LayerNorm) or name.endswith(("RMSNorm", "LayerNorm"))


def norms_of(layer: nn.Module, width: int) -> list[str]:
    """Returns the names of a layer's norms of the stream, in order, without norms of queries and keys."""
    return [name for name, m in layer.named_modules() if is_norm(m)
            and not name.endswith(("q_norm", "k_norm")) and getattr(getattr(m, "weight", None), "numel", lambda: width)() == width]


class WrongNorm(nn.Module):
    """A LayerNorm or RMSNorm with one fault that occurs in practice."""

    def __init__(self, norm: nn.Module, *, centres: Optional[bool] = None, eps: Optional[float] = None,
                 eps_is_outside: bool = False, is_unbiased: bool = False, adds_one: bool = False,
                 dim: int = -1, is_detached: bool = False, has_gain: bool = True):
        super().__init__()
        self.weight, self.bias = getattr(norm, "weight", None), getattr(norm, "bias", None)
        self.eps = next(e for e in (getattr(norm, key, None) for key in ("eps", "variance_epsilon"))
                        if isinstance(e, float))
        self.was_centred = isinstance(norm, nn.LayerNorm)
        self.centres = self.was_centred if centres is None else not self.was_centred
        self.true_eps = self.eps if eps is None else max(eps, 100 * self.eps)
        self.eps_is_outside, self.is_unbiased, self.adds_one = eps_is_outside, is_unbiased, adds_one
        self.dim, self.is_detached, self.has_gain = dim, is_detached, has_gain
        self.offset = _offset(norm)

    def forward(self, x: Tensor) -> Tensor:
        s = x - x.mean(self.dim, keepdim=True) if self.centres else x
        n = s.shape[self.dim]
        square = s.square().sum(self.dim, keepdim=True) / (n - int(self.is_unbiased))
        divisor = square.sqrt() + self.true_eps if self.eps_is_outside else \
            (square + self.true_eps).sqrt()
        y = s / (divisor.detach() if self.is_detached else divisor)
        if self.weight is None or not self.has_gain:
            return y
        y = y * (self.weight + (1 - self.offset if self.adds_one else self.offset))
        return y if self.bias is None else y + self.bias


class WrongRMSNorm(WrongNorm):
    """The same, with a typical class name of such norms."""


def _offset(norm: nn.Module) -> int:
    """Returns 1 if a norm multiplies by 1 + γ, judged by its result for γ = 1."""
    weight = getattr(norm, "weight", None)
    if weight is None:
        return 0
    with torch.no_grad():
        x = torch.linspace(-1, 2, weight.numel())[None]
        size = norm(x).sub(getattr(norm, "bias", None) if isinstance(norm, nn.LayerNorm) and norm.bias
                           is not None else 0).square().mean().sqrt()
        plain = weight.square().mean().sqrt()
    return int(abs(size - plain) > 0.5)


NORMS: dict[str, tuple[str, dict[str, Any]]] = {  # a bug's name: its rule, the fault
    "other kind of norm": ("norm-kind", {"centres": True}),
    "ε outside the root": ("epsilon-place", {"eps_is_outside": True}),
    "ε of another size": ("epsilon-size", {"eps": 1e-2}),
    "unbiased variance": ("variance-divisor", {"is_unbiased": True}),
    "γ read as 1 + γ": ("gamma-form", {"adds_one": True}),
    "norm over tokens": ("norm-axis", {"dim": -2}),
    "statistics detached": ("statistics-detached", {"is_detached": True}),
    "γ ignored": ("gamma-ignored", {"has_gain": False}),
}


def replace_norm(model: nn.Module, name: str, what: dict[str, Any]) -> None:
    owner = model.get_submodule(name.rpartition(".")[0])
    norm = model.get_submodule(name)
    kind = WrongNorm if isinstance(norm, nn.LayerNorm) else WrongRMSNorm
    wrong = kind(norm, **what)
    setattr(owner, name.rpartition(".")[2], wrong.train(norm.training))


WrongRMSNorm.__name__, WrongNorm.__name__ = "RMSNorm", "LayerNorm"


# ---- Judging reports on planted bugs ---------------------------------------------------------


def everywhere(bug: str) -> bool:
    return bug.startswith("every ")


class Verdict:
    """Whether a report names a bug: by its rule, at one of the places or, if the bug is everywhere, at half of them."""

    def __init__(self, title: str, rule: str, where: list[str], is_everywhere: bool, report: Any):
        self.title, self.rule, self.where = title, rule, where
        serious = [f for f in report.findings if f.severity != "note"]
        self.findings = [f"{f.name}: {f.seen}" for f in serious]
        least = len(where) / 2 if is_everywhere else 1
        named = [f.where for f in serious if f.rule == rule]
        self.is_named = sum(any(text in place for place in named) for text in where) >= least
        self.others = sorted({f.rule for f in serious if f.rule != rule})
        here = [f.rule for f in serious if any(text in f.where for text in where)]
        self.said = rule if self.is_named else next(iter(here), None) or \
            (f"{serious[0].rule} elsewhere" if serious else "nothing")


class Confusion:
    """Counts for each bug the rules that reports named."""

    def __init__(self) -> None:
        self._verdicts: dict[str, list[Verdict]] = {}

    def add(self, bug: str, verdict: Verdict) -> None:
        self._verdicts.setdefault(bug, []).append(verdict)

    @property
    def all(self) -> list[Verdict]:
        return [v for verdicts in self._verdicts.values() for v in verdicts]

    @property
    def share(self) -> float:
        return sum(v.is_named for v in self.all) / max(1, len(self.all))

    def rows(self) -> list[tuple[str, str, int, int, str]]:
        """Returns (bug, rule, planted, named, the rules named instead)."""
        found = []
        for bug, verdicts in self._verdicts.items():
            missed = [v.said for v in verdicts if not v.is_named]
            instead = ", ".join(f"{missed.count(said)} {said}" for said in sorted(set(missed)))
            found.append((bug, verdicts[0].rule, len(verdicts), len(verdicts) - len(missed), instead))
        return found

    def table(self) -> str:
        """Returns the rows as a Markdown table."""
        lines = ["| bug | rule | planted | named | instead |", "|---|---|---|---|---|"]
        return "\n".join(lines + [f"| {b} | {r} | {n} | {k} | {s} |" for b, r, n, k, s in self.rows()])

    def __str__(self) -> str:
        missed = [f"{v.title}: {'; '.join(v.findings[:4]) or 'nothing'}" for v in self.all if not v.is_named]
        return "\n".join([self.table(), f"{self.share:.1%} of {len(self.all)} named", *missed])


Case = tuple[str, str, str, list[str], Callable[[], Any]]  # model, bug, rule, where, a function that makes the report


def one_of_each_bug(cases: Iterable[Case]) -> list[Case]:
    """Returns one case of each bug, in models that vary from bug to bug."""
    of_bug: dict[str, list[Case]] = {}
    for case in cases:
        of_bug.setdefault(case[1], []).append(case)
    return [of_kind[7 * i % len(of_kind)] for i, of_kind in enumerate(of_bug.values())]


def judge(cases: Iterable[Case]) -> Confusion:
    confusion = Confusion()
    for name, bug, rule, where, report in cases:
        confusion.add(bug, Verdict(f"{bug} in {name}", rule, where, everywhere(bug), report()))
    return confusion
