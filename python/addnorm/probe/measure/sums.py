"""Measures sums: the factors of their parts."""

from __future__ import annotations

from typing import FrozenSet, Iterable, List, NamedTuple, Optional

from ..find.flow import Flow
from ..find.paths import factors_between, is_made_of, learned_stream
from ..find.sublayers import Sublayer
from ..find.values import StreamValues
from ..fit.batch import Numbers
from ..fit.sums import MOST_UNEXPLAINED, InnerProducts, inner_products
from ..fit.values import moment_numbers, read_moments
from ..record.graph import Value
from .measured import Measured
from .rows import Rows


class SumForm(NamedTuple):
    """The form of a sum, as the graph shows it."""
    parts: List[str]  # the names of its parts
    beside: FrozenSet[str]  # the parts whose factors are not in the profile: parallel branches
    has_earlier: bool  # whether "earlier", the stream that the previous sublayer read, may replace x
    is_stale: bool = False  # whether the added stream is that one
    is_of_x: bool = False  # whether the added stream is x, not the norm's output


def form_of(sub: Sublayer, parts: Iterable[str], earlier: Optional[Value], values: StreamValues) -> SumForm:
    """parts: the names of the parts except "earlier"."""
    stream, names = sub.sum.stream, list(parts)
    is_stale = earlier is not None and stream is not None and stream.root is earlier.root is not sub.x.root
    is_of_x = sub.before is not None and stream is not None and \
        is_made_of(stream, sub.x, values) and not is_made_of(stream, sub.before.output, values)
    beside = frozenset(name for name in names if name.startswith("other "))
    return SumForm(names, beside, earlier is not None, is_stale, is_of_x)


class SumMeasurement:
    """Measures the sums of one stream."""

    def __init__(self, measured: Measured, flow: Flow, rows: Rows) -> None:
        self._measured, self._flow, self._values, self._rows = measured, flow, flow.values, rows

    def fit_sum(self, entry: Numbers, sub: Sublayer, consumed: Optional[Value], earlier: Optional[Value]) -> None:
        """Fits the factors of a sum's parts. earlier: the stream that the previous sublayer read; may replace x."""
        if earlier is not None and earlier.tensor.numel() != sub.total.tensor.numel():
            earlier = None  # the stream changed its shape between them
        parts = {"x": learned_stream(sub.sum.stream, sub.x, self._values),
                 **({} if consumed is None else {"before": consumed}), "branch": sub.joined,
                 **{f"other {i}": value for i, value in enumerate(sub.beside)}}
        form = form_of(sub, parts, earlier, self._values)
        all_parts = parts if earlier is None else {**parts, "earlier": earlier}
        total = self._rows.values(sub.total)

        # read() is stored until the end of the step, so it must not reference tensors.
        names, dtype, count = list(all_parts), total.dtype, total.numel()
        numbers: Numbers = {}

        def read() -> None:
            made_of = choose_fit(InnerProducts(numbers, names, dtype, count), form) if numbers else {}
            entry.update(made_of)
            self._measured.coverage.count("sums", "unexplained" in made_of)

        self._measured.fit(inner_products, [total, *map(self._rows.values, all_parts.values())], numbers.update)
        self._measured.finally_do(read)

    def fit_passage(self, entry: Numbers, sub: Sublayer, previous: Optional[Sublayer]) -> None:
        """Fits the input of a sublayer, or of its norm, as a sum of the previous sublayer's output stream, norm output
        and input stream. There is no fit if the input is that output stream itself."""
        x = sub.x if sub.before is None else sub.before.input
        parts = {"left": self._flow.x if previous is None else previous.next_x}
        if previous is not None and previous.before is not None:
            parts["left_norm"] = previous.before.output
        if previous is not None and previous.sum is not sub.sum and previous.x.root is x.root:
            parts["earlier"] = previous.x
        left = list(parts.values())
        is_other = self._flow.lanes or sub.has_own_slots  # its input was not recognized
        if x.root is left[0].root or is_other or any(v.tensor.numel() != x.tensor.numel() for v in left):
            return
        names = list(parts)
        gates = factors_between(x, left[0], self._values)
        if gates:
            self._measured.fit(moment_numbers, [gates[0].recorded.flatten()], lambda numbers: entry.update(
                stream_gain=read_moments(numbers)["rms"]))
        rows = self._rows.values(x)
        dtype, count = rows.dtype, rows.numel()

        def read(numbers: Numbers) -> None:
            fit = InnerProducts(numbers, names, dtype, count).fit()
            if fit.get("unexplained", 1) < MOST_UNEXPLAINED:
                entry.update({name: value for name, value in fit.items() if name != "unexplained"})

        self._measured.fit(inner_products, [rows, *map(self._rows.values, left)], read)


def choose_fit(fits: InnerProducts, form: SumForm) -> Numbers:
    """Returns the factors of a sum's parts."""
    hidden = form.beside
    if form.is_stale:  # decided by the graph, because the two streams may be nearly equal
        made_of = fits.fit(["earlier", *(name for name in form.parts if name not in ("x", "before"))], hidden=hidden)
        return {**made_of, "from_x": 0.0} if made_of else {}
    made_of = fits.fit(form.parts, hidden=hidden)
    if form.is_of_x and "from_x" not in made_of and "unexplained" in made_of:  # x is itself a norm's output
        made_of = {"from_before": 0.0, **fits.fit((name for name in form.parts if name != "before"), hidden=hidden)}
    if not form.has_earlier or not made_of.get("unexplained", 0) > MOST_UNEXPLAINED:
        return made_of
    found = fits.fit([*form.parts, "earlier"], hidden=hidden)
    takes_it = abs(found.get("from_x", 1)) < 0.05 < found.get("from_earlier", 0)
    return found if takes_it and found["unexplained"] < MOST_UNEXPLAINED else made_of
