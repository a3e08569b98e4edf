"""Fits total ≈ Σ from_k · part_k by least squares over all values.

The device computes a first solution, and the inner products of the parts with each other and with the solution's
residual. From these the host computes the fit to any subset of the parts.
"""

from __future__ import annotations

import math
from typing import Collection, Dict, Iterable, List, Optional, Tuple

import torch
from torch import Tensor

from .batch import Numbers
from .values import wide

LEAST_EIGENVALUE = 1e-10  # for parts of length 1; below, some parts are linear combinations of others
MOST_UNEXPLAINED = 0.02  # the largest relative residual of a fit that explains its total
MOST_ERROR = 0.02  # the largest standard error of a coefficient


def inner_products(total: Tensor, *parts: Tensor) -> Dict[str, Tensor]:
    """Returns a first solution, which need not be exact, and the inner products of the parts with each other and with
    its residual. The residual is computed elementwise: a difference of sums of squares would lose it to rounding."""
    rows, t = torch.stack([wide(part).flatten(1) for part in parts], 1), wide(total).flatten(1).unsqueeze(-1)
    products, target = rows @ rows.transpose(1, 2), rows @ t
    unit = products.diagonal(dim1=1, dim2=2).sqrt().clamp(min=1e-300).unsqueeze(-1)
    ridge = 1e-12 * torch.eye(len(parts), dtype=rows.dtype, device=rows.device)
    solved, _ = torch.linalg.solve_ex(products / unit / unit.transpose(1, 2) + ridge, target / unit)
    solution = solved / unit
    left = t - rows.transpose(1, 2) @ solution
    return {"products": products, "solution": solution, "left_products": rows @ left, "left": left.norm(dim=(1, 2)),
            "length": t.norm(dim=(1, 2))}


class InnerProducts:
    """The numbers of inner_products() on the host.

    names: of the parts. dtype: of the total. count: the number of the total's values.
    """

    def __init__(self, numbers: Numbers, names: Iterable[str], dtype: torch.dtype, count: int) -> None:
        self._names = list(names)
        size, flat = len(self._names), numbers["products"]
        self._products = [flat[i * size:(i + 1) * size] for i in range(size)]
        self._solution, self._left_products = numbers["solution"], numbers["left_products"]
        self._left, self._length = numbers["left"], numbers["length"]
        self._count, self._precision = count, torch.finfo(dtype).eps

    def fit(self, names: Optional[Iterable[str]] = None, hidden: Collection[str] = ()) -> Numbers:
        """Returns the coefficients of the named parts (default: all), and the relative residual, "unexplained". The
        result omits the parts in `hidden`.

        Omits coefficients that the data do not determine: those of parts that are multiples of each other, or that are
        smaller than the total's rounding. Returns {} if a value is not finite, or if the total is 0. """
        chosen = list(self._names if names is None else names)
        at = [self._names.index(name) for name in chosen]
        lengths = [_root(self._products[i][i]) for i in at]
        if not all(map(math.isfinite, (self._length, *lengths))) or self._length == 0:
            return {}
        unit = [max(length, 1e-300) for length in lengths]
        values, vectors = eigen([[self._products[i][j] / unit[a] / unit[b] for b, j in enumerate(at)]
                                 for a, i in enumerate(at)])
        resolved = [(value, v) for value, v in zip(values, vectors) if value > LEAST_EIGENVALUE]
        unresolved = [v for value, v in zip(values, vectors) if value <= LEAST_EIGENVALUE]

        rest, square = self._rest_without(at)
        target = [rest[i] / unit[a] for a, i in enumerate(at)]
        first = [self._solution[i] * unit[a] for a, i in enumerate(at)]
        along = [_dot(v, first) + _dot(v, target) / value for value, v in resolved]
        solution = [sum(x * v[a] for x, (_, v) in zip(along, resolved)) for a in range(len(at))]
        left = math.sqrt(max(0.0, square - sum(_dot(v, target)**2 / value for value, v in resolved)))

        def is_vague(a: int) -> bool:
            spread = math.sqrt(sum(v[a]**2 / value for value, v in resolved))
            error = left / math.sqrt(self._count) * spread / unit[a]
            is_mixed = any(abs(v[a]) > 1e-3 for v in unresolved)
            has_part = abs(solution[a]) > 1e-3 * self._length or lengths[a] == 0  # a coefficient of 0 is known
            is_hidden = lengths[a] < 2 * self._precision * self._length and abs(solution[a]) > 1e-3 * lengths[a]
            return (is_mixed or not error < MOST_ERROR) and has_part or is_hidden

        return {"unexplained": left / self._length,
                **{f"from_{name}": solution[a] / unit[a] for a, name in enumerate(chosen)
                   if name not in hidden and not is_vague(a)}}

    def _rest_without(self, at: List[int]) -> Tuple[List[float], float]:
        """Returns the inner products of all parts with r, and ‖r‖². Here r is the first solution's residual plus its
        terms for the parts that are not in `at`."""
        out = [i for i in range(len(self._names)) if i not in at]
        took = [self._solution[i] for i in out]
        rest = [own + _dot(took, [row[i] for i in out]) for own, row in zip(self._left_products, self._products)]
        square = self._left**2 + sum(c * (self._left_products[i] + rest[i]) for c, i in zip(took, out))
        return rest, square


def _root(value: float) -> float:
    return math.sqrt(value) if value >= 0 else math.nan


def _dot(a: List[float], b: List[float]) -> float:
    return sum(x * y for x, y in zip(a, b))


def eigen(matrix: List[List[float]]) -> Tuple[List[float], List[List[float]]]:
    """Returns the eigenvalues and eigenvectors of a small symmetric matrix, by the Jacobi method."""
    n = len(matrix)
    a = [row[:] for row in matrix]
    vectors = [[float(i == j) for j in range(n)] for i in range(n)]  # rows
    for _ in range(50):
        pairs = [(i, j) for i in range(n) for j in range(i) if abs(a[i][j]) > 1e-18]
        if not pairs:
            break
        for i, j in pairs:
            _rotate(a, vectors, i, j)
    return [a[i][i] for i in range(n)], vectors


def _rotate(a: List[List[float]], vectors: List[List[float]], i: int, j: int) -> None:
    """Rotates the axes i and j so that a[i][j] becomes 0."""
    if a[i][j] == 0:
        return
    theta = (a[j][j] - a[i][i]) / (2 * a[i][j])
    tangent = math.copysign(1, theta) / (abs(theta) + math.hypot(theta, 1))
    c = 1 / math.hypot(tangent, 1)
    s = tangent * c
    for row in a:
        row[i], row[j] = c * row[i] - s * row[j], s * row[i] + c * row[j]
    for rows in (a, vectors):
        rows[i], rows[j] = [[c * x - s * y for x, y in zip(rows[i], rows[j])],
                            [s * x + c * y for x, y in zip(rows[i], rows[j])]]
