"""Measures the behaviour of a model: what its output depends on, its gradients, its weights and its optimizer.

    lines, left_out = measure(model, (tokens,), {}, loss=…, optimizer=…)

Lines of a profile: {"step": 0, "check": "future-leak", "value": 0.12, "limit": 1e-05, "where": …},
`limit` is the reference for the value, `declared` is the reason to expect another value, and `detail` holds further
observations. The doctor's rules judge the lines (docs/doctor.md).
"""

from __future__ import annotations

from typing import Any, Callable

from torch import Tensor, nn

from .._snapshot import unchanged
from .activations import Activations
from .attention import AttentionChecks
from .attention_scale import AttentionScale
from .cache import measure_cache
from .configuration import Computed
from .dropout import StreamDropout
from .frozen import measure_frozen
from .functions import Functions
from .gradients import Gradients
from .locality import measure_locality
from .logits import HeadOutput
from .missing import measure_missing
from .noise import measure_noise
from .norm_statistics import NormInputs, measure_statistics
from .optimizers import measure_optimizer
from .padding import measure_alone, measure_padding
from .positions import Positions
from .registration import measure_registration
from .starts import Starts
from .subject import Line, Subject
from .targets import Targets, measure_initial_loss, next_token_targets
from .ties import measure_ties
from .tracer import Tracer
from .weights import measure_bias_offsets, measure_initial_sizes, measure_odd_sizes, measure_zero_rows
from .zero_gradients import measure_zero

__all__ = ["measure"]


# The checks that need the subject alone, in their order: size-odd reads the lines of initial-size.
_OF_SUBJECT = {
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
    s = Subject(model, inputs, named, loss)
    with s.part("model"):
        unchanged(lambda: _measure(s, [o for o in optimizers if o is not None]), model, inputs, named, loss)
    return s.lines, s.left_out


def _measure(s: Subject, optimizers: list[Any]) -> None:
    gradients: Gradients | None = None
    targets: Targets | None = None
    dropout, computed, norms, starts, tracer = StreamDropout(s), Computed(s), NormInputs(), Starts(s), Tracer(s)
    of_forward = (AttentionScale(s), AttentionChecks(s, starts), computed, Activations(s), Positions(s),
                  HeadOutput(s, tracer))
    with s.part("gradients"):
        with Functions(s, dropout, computed):
            gradients = Gradients(s, watch=(dropout.enter,))
        dropout.add()
        targets = next_token_targets(s, gradients)
        measure_initial_loss(s, gradients)
    with s.part("future-leak, batch-leak"):
        with Functions(s, *of_forward):
            tracer.forward(watch=(norms.enter, starts.enter))
        for watch in of_forward:
            with s.part(watch.checks):
                watch.add()
        measure_locality(s, tracer, targets)
    if tracer.output is not None:
        output = tracer.output.detach()
        for where, part in (("eval-noise", measure_noise), ("padding-leak", measure_padding),
                            ("batch-leak", measure_alone), ("cache-mismatch", measure_cache)):
            with s.part(where):
                part(s, output)
    with s.part("statistics-detached"):
        measure_statistics(s, norms)
    for where, measure_part in _OF_SUBJECT.items():
        with s.part(where):
            measure_part(s)
    if gradients is not None:
        with s.part("gradient-missing, parameter-unused"):
            measure_missing(s, gradients)
        with s.part("gradient-zero"):
            measure_zero(s, gradients, starts)
    if optimizers:
        with s.part("optimizer"):
            measure_optimizer(s, optimizers, gradients.sizes if gradients else {})
