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

from typing import Any, Callable

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


# The checks that watch no forward, in their order: size-odd omits parameters that initial-size names.
_WITHOUT_WATCHING = {
    "parameter-frozen": measure_frozen, "tying-broken": measure_ties, "weight-zeros": measure_zero_rows,
    "initial-size": measure_initial_sizes, "bias-off-zero": measure_bias_offsets, "size-odd": measure_odd_sizes,
    "parameter-unregistered, layer-shared": measure_registration}


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


def _measure(subject: Subject, optimizers: list[Any]) -> None:
    gradients: Gradients | None = None
    targets: Targets | None = None
    dropout, computed, norms = StreamDropout(subject), Computed(subject), NormInputs()
    starts, tracer = Starts(subject), Tracer(subject)
    of_forward = (AttentionScale(subject), AttentionChecks(subject, starts), computed, Activations(subject),
                  Positions(subject), HeadOutput(subject, tracer))
    with subject.part("gradients"):
        with Functions(subject, dropout, computed):
            gradients = Gradients(subject, watch=(dropout.enter,))
        dropout.add_lines()
        targets = next_token_targets(subject, gradients)
        measure_initial_loss(subject, gradients)
    with subject.part("future-leak, batch-leak"):
        with Functions(subject, *of_forward):
            tracer.forward(watch=(norms.enter, starts.enter))
        for watch in of_forward:
            with subject.part(watch.checks):
                watch.add_lines()
        measure_locality(subject, tracer, targets)
    if tracer.output is not None:
        output = tracer.output.detach()
        for where, part in (("eval-noise", measure_noise), ("padding-leak", measure_padding),
                            ("batch-leak", measure_alone), ("cache-mismatch", measure_cache)):
            with subject.part(where):
                part(subject, output)
    with subject.part("statistics-detached"):
        measure_statistics(subject, norms)
    for where, measure_part in _WITHOUT_WATCHING.items():
        with subject.part(where):
            measure_part(subject)
    if gradients is not None:
        with subject.part("gradient-missing, parameter-unused"):
            measure_missing(subject, gradients)
        with subject.part("gradient-zero"):
            measure_zero(subject, gradients, starts)
    if optimizers:
        with subject.part("optimizer"):
            measure_optimizer(subject, optimizers, gradients.sizes if gradients else {})
