"""The polytope {x >= 0, sum x = 1, G x <= 0}: which parts of it can move, and a point well inside of it.

Sets of equilibria have this form, and are often flat: some policies are never played, and some constraints hold with
equality everywhere. `find_face` finds both by one linear program. The cone {x >= 0, G x <= 0} is closed under sums, so
one point of it is positive, and slack, wherever any point is. Invariant: constraints that remain can all be slack at
once, so a method that needs an interior has one.

Covered: supports in which every policy can have a share of `SMALLEST_SHARE` while all others have theirs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import qr
from scipy.optimize import OptimizeResult, linprog
from scipy.sparse import csr_array, eye_array, hstack, vstack

from ludus.errors import LudusError
from ludus.league.payoffs.normal_form import Array

SMALLEST_SHARE = 1e-5
NOISE = 1e-13
"""Constraints whose coefficients are all smaller are rounding errors of payoffs that are of the order of 1."""
DEPENDENT = 1e-9
"""What is left of a row, beyond its part along other rows, that is rounding; rows have entries up to 1."""
_TIGHT: dict[str, object] = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
_ATTEMPTS: tuple[tuple[str, dict[str, object]], ...] = (
    ("highs", _TIGHT),
    ("highs", {}),
    ("highs-ipm", _TIGHT),
    ("highs-ds", {"presolve": False}),
)
"""HiGHS now and then gives up on a program that it solves by another route."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Face:
    """The smallest face that holds all points, in the coordinates that can be positive."""

    support: NDArray[np.intp]
    """Indices of those coordinates. `[n]`"""
    equalities: Array
    """Independent rows that are 0 everywhere. `[e, n]`"""
    inequalities: Array
    """Rows that are at most 0, and less at the interior point. `[i, n]`"""
    interior: Array
    """A point that is positive and slack wherever one can be; sums to 1. `[n]`"""

    def spread(self, point: Array, size: int) -> Array:
        """A point of the face in all coordinates."""
        whole = np.zeros(size)
        whole[self.support] = point
        return whole


def find_face(constraints: Array) -> Face | None:
    """The face of {x >= 0, sum x = 1, constraints @ x <= 0}, `[m, n]`; None if no such point was found."""
    scale = np.abs(constraints).max(axis=1, initial=0.0)
    rows = constraints[scale > NOISE] / scale[scale > NOISE, None]
    point, can_be_slack = _inner_point(rows)
    support = np.flatnonzero(point)
    if not support.size:
        return None
    kept = rows[:, support]
    return Face(
        support=support,
        equalities=_independent(kept[~can_be_slack]),
        inequalities=kept[can_be_slack],
        interior=point[support] / point.sum(),
    )


def run_linear_program(costs: ArrayLike, **constraints: object) -> OptimizeResult:
    """Minimise with HiGHS, to its tightest tolerances where it can."""
    for method, options in _ATTEMPTS:
        result = linprog(costs, method=method, options=options, **constraints)
        if result.status == 0:
            return result
    raise LudusError(f"a linear program of {np.size(costs)} variables was not solved: {result.message}")


def _inner_point(rows: Array) -> tuple[Array, NDArray[np.bool_]]:
    """A point of the cone, 0 where no point is positive, and whether each row can be slack."""
    count, size = rows.shape
    if not count:
        return np.ones(size), np.zeros(0, np.bool_)
    sparse, total = csr_array(rows), csr_array(np.ones((1, 2 * size)))
    # Variables: how much of 1 a coordinate has, what it has beyond, and how much of 1 a row is slack by.
    left = vstack([hstack([sparse, sparse, eye_array(count)]), hstack([total, csr_array((1, count))])], format="csr")
    right = np.append(np.zeros(count), 1.0 / SMALLEST_SHARE + size)
    bounds = np.array([(0.0, 1.0)] * size + [(0.0, np.inf)] * size + [(0.0, 1.0)] * count)
    rewards = np.concatenate([np.ones(size), np.zeros(size), np.ones(count)])
    try:
        found = run_linear_program(-rewards, A_ub=left, b_ub=right, bounds=bounds).x
    except LudusError:
        return np.zeros(size), np.zeros(count, np.bool_)
    first, beyond, slack = found[:size], found[size : 2 * size], found[2 * size :]
    return np.where(first > 0.5, first + beyond, 0.0), slack > 0.5


def _independent(rows: Array) -> Array:
    """As many of the rows as are linearly independent; those that are 0 up to rounding say nothing."""
    rows = rows[np.abs(rows).max(axis=1, initial=0.0) > DEPENDENT]
    if not rows.size:
        return rows
    _, triangle, order = qr(rows.T, mode="economic", pivoting=True)
    diagonal = np.abs(np.diag(triangle))
    return np.asarray(rows[np.sort(order[: np.count_nonzero(diagonal > DEPENDENT)])])
