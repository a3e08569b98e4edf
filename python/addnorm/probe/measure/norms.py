"""Measures the kind of a norm."""

from __future__ import annotations

import functools
from typing import List, Optional, Tuple

from torch import Tensor, nn

from ..find.norm_names import is_of_other_axes, norm_kind, squashing
from ..find.parts import Norm
from ..fit.batch import Numbers
from ..fit.norms import KnownNorm, is_unit_length, norm_numbers, read_norm, unit_length_numbers
from ..fit.statistics import by_head, is_explained, is_one_scale, read_statistics, scale_numbers, statistics_numbers
from ..record.graph import Value
from .declared import Declared
from .measured import Measured
from .profile import Site
from .rows import RowsOf

MOST_KEPT = 2**21  # the most values of a norm's input, and of its output, that are kept until the end of the step


def sample(rows: Tensor) -> Tensor:
    """Copies some whole sequences of [sequences, tokens, features], or the beginning of one."""
    tokens = max(1, MOST_KEPT // rows.shape[-1])
    return rows[:max(1, tokens // max(1, rows.shape[1])), :tokens].clone()


def without_epsilon(fit: Numbers, is_unit: bool) -> Numbers:
    """Returns a norm's fit, without the divisor if the norm is x/‖x‖ and its ε is only a smallest length."""
    if is_unit and abs(fit.get("eps_in_deviation", 1)) < 1e-6 * fit.get("divisor", 0):
        return {key: value for key, value in fit.items() if key in ("unexplained", "scale", "gamma_offset")}
    return fit


class NormMeasurement:
    """Measures one norm and writes its numbers to the profile's entry of a site."""

    def __init__(self, measured: Measured, declared: Declared, site: Site, module: Optional[nn.Module],
                 is_unit: bool) -> None:
        """module: the norm's module. is_unit: whether it divides by a length."""
        self._measured, self._site, self._is_unit = measured, site, is_unit
        self._is_other = is_of_other_axes(module) or squashing(module) is not None
        form = declared.gamma_form()
        self._known = KnownNorm(norm_kind(module) == "rms", None if form is None else form == "one_plus")
        self._numbers: Numbers = {}
        self._together: Numbers = {}
        self._apart: Numbers = {}
        self._copies: List[Optional[Tensor]] = []  # rows of the norm's input and output, γ and β

    def request(self, norm: Norm, output: Value, weights: Tuple[Optional[Tensor], Optional[Tensor]], rows_of: RowsOf,
                heads: int) -> None:
        """Requests the fits of a norm. Copies values that may be overwritten before a fit is read.

        weights: γ and β. heads: the number of heads, for a norm of queries or keys. If the heads of a token share
        statistics, the entry is removed again.
        """
        (read, stride), given = rows_of(norm.input.recorded), rows_of(output.recorded).rows
        self._copies = [sample(read), sample(given), *(w if w is None else w.detach().clone() for w in weights)]
        is_whole = stride == 1 and self._copies[0].shape[1] == read.shape[1]
        if not self._is_other:
            self._measured.fit(norm_numbers, [read, given, *weights], self._numbers.update)
        if self._is_unit or weights == (None, None):
            self._measured.fit(unit_length_numbers, [given, *weights], self._numbers.update)
        whole = norm.input.recorded[:1], norm.output.recorded[:1]
        groups = by_head(*whole, heads)
        if groups is not None:
            self._measured.fit(scale_numbers, groups, self._together.update)
            self._measured.fit(scale_numbers, whole, self._apart.update)
        self._measured.finally_do(functools.partial(self._read, read[..., 0].numel(), is_whole))

    def _read(self, count: int, is_whole: bool) -> None:
        """count: the number of rows. is_whole: whether the copied rows are whole sequences."""
        if self._together and is_one_scale(self._together) and not is_one_scale(self._apart):
            self._measured.entries.pop(self._site, None)  # one norm over all heads of a token
            return
        is_unit = "from_one" in self._numbers and is_unit_length(self._numbers)
        is_known = not is_unit and not self._is_other and "length" in self._numbers
        fit = read_norm(self._numbers, count, self._known) if is_known else {}
        if not fit or "vanished" in fit or is_explained(fit):
            self._keep(fit, is_unit)
            return
        self._measured.fit(statistics_numbers, self._copies, lambda numbers: self._keep(
            read_statistics(numbers, fit, is_whole) or fit, is_unit), fit.get("gamma_offset", 0))

    def _keep(self, fit: Numbers, is_unit: bool) -> None:
        fit = without_epsilon(fit, self._is_unit)
        self._measured.entries[self._site].update(fit)
        self._measured.coverage.count("norms", bool(fit) or is_unit or self._is_other)
