"""Measures the behaviour of a model: what its output depends on, its gradients, its weights and its optimizer.

    lines, left_out = measure(model, (tokens,), {}, loss=…, optimizer=…)

Lines of a profile: {"step": 0, "check": "future-leak", "value": 0.12, "limit": 1e-05, "where": …},
`limit` is the reference for the value, `declared` is the reason to expect another value, and `detail` holds further
observations. The doctor's rules judge the lines (docs/doctor.md).

The checks with their files, and the runs that they use. The training forward is in the caller's mode and has a
backward, the traced forward is in evaluation with boundaries for the gradient of one token, and "another" is a further
run with a change:

    checks                                                      file                      run
    activation-changed                                          forwards/activations      traced
    softmax-axis, attention-constant, heads-alike, head-silent  forwards/attention        traced
    attention-scale, attention-scale-odd                        forwards/attention_scale  traced
    unlike-config, dropout-before-softmax, cast-to-half         forwards/configuration    training and traced
    dropout-on-stream                                           forwards/dropout          training
    future-leak, batch-leak                                     forwards/locality         traced
    logits-changed                                              forwards/logits           traced
    statistics-detached                                         forwards/norm_statistics  traced, norms alone
    positions-wrong                                             forwards/positions        traced
    eval-noise                                                  reruns/noise              another
    padding-leak, alone (judged by the rule batch-leak)         reruns/padding            another
    cache-mismatch                                              reruns/cache              another
    parameter-frozen                                            parameters/frozen         none
    tying-broken                                                parameters/ties           none
    weight-zeros, size-odd                                      parameters/weights        none
    initial-size, bias-off-zero                                 parameters/initial_sizes  none
    parameter-unregistered, layer-shared                        parameters/registration   another
    initial-loss                                                parameters/initial_loss   training
    gradient-missing, parameter-unused, gamma-ignored,          parameters/missing        training, another
    norm-unused, norm-shared
    gradient-zero                                               parameters/zero_gradients training, another
    not-in-optimizer, update-ratio, decay-on-gain, decay-uneven parameters/optimizers     training

The files of parameters/, forwards/ and reruns/ import only from run/.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator

from torch import Tensor, nn

from .._snapshot import unchanged
from .forwards.activations import Activations
from .forwards.attention import AttentionChecks
from .forwards.attention_scale import AttentionScale
from .forwards.configuration import Computed
from .forwards.dropout import StreamDropout
from .forwards.locality import measure_locality
from .forwards.logits import HeadOutput
from .forwards.norm_statistics import NormInputs, measure_statistics
from .forwards.positions import Positions
from .parameters.frozen import measure_frozen
from .parameters.initial_loss import measure_initial_loss
from .parameters.initial_sizes import measure_bias_offsets, measure_initial_sizes
from .parameters.missing import measure_missing
from .parameters.optimizers import measure_optimizer
from .parameters.registration import measure_registration
from .parameters.ties import measure_ties
from .parameters.weights import measure_odd_sizes, measure_zero_rows
from .parameters.zero_gradients import measure_zero
from .reruns.cache import measure_cache
from .reruns.noise import measure_noise
from .reruns.padding import measure_alone, measure_padding
from .run.functions import Functions
from .run.gradients import Gradients
from .run.starts import Starts
from .run.subject import Line, Subject
from .run.targets import Targets, next_token_targets
from .run.tracer import Tracer

__all__ = ["measure"]


def measure(model: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], *,
            loss: Callable[[Any], Tensor] | str | None = None,
            optimizer: Any = None) -> tuple[list[Line], list[dict[str, str]]]:
    """Returns the lines of a profile for model(*inputs, **named), and the parts that were not measured, with reasons.

    loss       the same as for check(); without a loss, every output gets a gradient
    optimizer  the optimizer of the parameters, or a list of several; None: no optimizer is checked

    Runs three forwards and three backwards. A padding mask in the batch costs two or three more runs, and up to four
    more if other sequences or padding change the output. Without a mask, an embedding with a padding_idx costs one or
    two. A cache costs two. Parameters whose gradient is missing or 0 cost up to six. Afterwards the model and the
    generators of random numbers are bitwise unchanged.
    """
    optimizers = list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer]
    subject = Subject(model, inputs, named, loss)
    with subject.part("model"):
        unchanged(lambda: _measure(subject, [o for o in optimizers if o is not None]), model, inputs, named, loss)
    return subject.lines, subject.left_out


class _Found:
    """The results of the training and the traced forward that later steps use."""

    gradients: Gradients | None = None
    targets: Targets | None = None
    is_traced = False


def _measure(subject: Subject, optimizers: list[Any]) -> None:
    for checks, step in _steps(subject, optimizers):
        with subject.part(checks):
            step()


def _steps(subject: Subject, optimizers: list[Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yields the steps of a measurement with the names of their checks. A step is left out if it needs what an earlier
    one could not measure."""
    dropout, computed, norms = StreamDropout(subject), Computed(subject), NormInputs()
    starts, tracer, found = Starts(subject), Tracer(subject), _Found()
    watchers = (AttentionScale(subject), AttentionChecks(subject, starts), computed, Activations(subject),
                Positions(subject), HeadOutput(subject, tracer))

    def train() -> None:
        with Functions(subject, dropout, computed):
            found.gradients = Gradients(subject, watch=(dropout.enter,))
        dropout.add_lines()
        found.targets = next_token_targets(subject, found.gradients)
        measure_initial_loss(subject, found.gradients)

    def trace() -> None:
        with Functions(subject, *watchers):
            tracer.forward(watch=(norms.enter, starts.enter))
        found.is_traced = True

    yield "gradients", train
    yield "future-leak, batch-leak", trace
    if found.is_traced:
        yield from ((watch.checks, watch.add_lines) for watch in watchers)
        yield "future-leak, batch-leak", lambda: measure_locality(subject, tracer, found.targets)
    if tracer.output is not None:
        output = tracer.output.detach()
        yield "eval-noise", lambda: measure_noise(subject, output)
        yield "padding-leak", lambda: measure_padding(subject, output)
        yield "batch-leak", lambda: measure_alone(subject, output)
        yield "cache-mismatch", lambda: measure_cache(subject, output)
    yield "statistics-detached", lambda: measure_statistics(subject, norms)
    yield "parameter-frozen", lambda: measure_frozen(subject)
    yield "tying-broken", lambda: measure_ties(subject)
    yield "weight-zeros", lambda: measure_zero_rows(subject)
    named: set[str] = set()  # parameters that initial-size names, which size-odd omits
    yield "initial-size", lambda: named.update(measure_initial_sizes(subject))
    yield "bias-off-zero", lambda: measure_bias_offsets(subject)
    yield "size-odd", lambda: measure_odd_sizes(subject, named)
    yield "parameter-unregistered, layer-shared", lambda: measure_registration(subject)
    gradients = found.gradients
    if gradients is not None:
        yield ("gradient-missing, parameter-unused, gamma-ignored, norm-unused, norm-shared",
               lambda: measure_missing(subject, gradients))
        yield "gradient-zero", lambda: measure_zero(subject, gradients, starts)
    if optimizers:
        yield "optimizer", lambda: measure_optimizer(subject, optimizers, gradients.sizes if gradients else {})
