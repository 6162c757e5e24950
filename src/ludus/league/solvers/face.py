"""The polytope {x >= 0, sum x = 1, G x <= 0}: which parts of it can move, a point well inside of it, and the point of
it where a separable convex function is least.

Sets of equilibria have this form, and are often flat: some policies are never played, and some constraints hold with
equality everywhere. `find_face` finds both by one linear program. The cone {x >= 0, G x <= 0} is closed under sums, so
one point of it is positive, and slack, wherever any point is. Invariant: constraints that remain can all be slack at
once, so a method that needs an interior has one.

`minimise` follows the central path of a primal-dual interior-point method. Every iterate is inside the face, so that
the answer keeps all constraints to rounding, even where its value is not yet exact. Dense: time grows with the cube of
the coordinates or of the constraints, whichever are fewer.

Covered: supports in which every policy can have a share of `SMALLEST_SHARE` while all others have theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, qr
from scipy.optimize import OptimizeResult, linprog
from scipy.sparse import csr_array, eye_array, hstack, vstack

from ludus.errors import LudusError
from ludus.league.payoffs.normal_form import Array

SMALLEST_SHARE = 1e-5
NOISE = 1e-13
"""Constraints whose coefficients are all smaller are rounding errors of payoffs that are of the order of 1."""
DEPENDENT = 1e-9
"""What is left of a row, beyond its part along other rows, that is rounding; rows have entries up to 1."""
MOST_STEPS = 100
LARGEST_GAP = 1e-13
"""How far from optimal the value may stay: the sum of slack times multiplier."""
LARGEST_MOVE = 1e-10
"""How far the last step may have gone."""
SHRINK = 0.1
TO_THE_EDGE = 0.99
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A separable convex function of a positive point, by its derivatives."""

    slope: Callable[[Array], Array]
    curvature: Callable[[Array], Array]
    keeps_positive: bool
    """Whether its slope alone keeps every coordinate away from 0."""


NEGATIVE_ENTROPY = Objective(slope=lambda x: np.log(x) + 1.0, curvature=lambda x: 1.0 / x, keeps_positive=True)
SQUARED_NORM = Objective(slope=lambda x: 2.0 * x, curvature=lambda x: np.full_like(x, 2.0), keeps_positive=False)


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


def minimise(objective: Objective, face: Face) -> Array:
    """The point of the face with the least value, in the face's own coordinates. `[n]`."""
    fixed = np.vstack([face.equalities, np.ones((1, face.support.size))])
    point = _onto(fixed, face.interior)
    if len(fixed) == face.support.size:
        return point
    bounds = not objective.keeps_positive
    few = len(face.inequalities) + len(fixed) < face.support.size
    rows = -face.inequalities
    step = _step_of_rows(fixed, rows) if few else _step_of_coordinates(fixed, rows)
    return _onto(fixed, _follow_path(objective, point, rows, bounds, step))


Step = Callable[[Array, Array, Array], Array]
"""Solve `(diag(curvature) + rows' diag(weights) rows) move = right` among moves that keep what is fixed."""


def _follow_path(objective: Objective, point: Array, rows: Array, bounds: bool, step: Step) -> Array:
    """Newton steps towards `slack * multiplier = target`, for a target that falls to 0."""

    def slack_of(x: Array) -> Array:
        return np.concatenate([rows @ x, x]) if bounds else np.asarray(rows @ x)

    def pull(values: Array) -> Array:
        """What forces on the slacks are as forces on the coordinates."""
        pulled = rows.T @ values[: len(rows)]
        return np.asarray(pulled + values[len(rows) :] if bounds else pulled)

    slack = slack_of(point)
    multiplier = 1.0 / slack
    for _ in range(MOST_STEPS):
        gap = float(slack @ multiplier)
        target = SHRINK * gap / max(len(slack), 1)
        slope, weights = objective.slope(point), multiplier / slack
        curvature = objective.curvature(point) + (weights[len(rows) :] if bounds else 0.0)
        try:
            move = step(curvature, weights[: len(rows)], pull(target / slack) - slope)
        except LinAlgError:
            break
        change = slack_of(move)
        turn = (target - multiplier * change) / slack - multiplier
        length = min(1.0, TO_THE_EDGE * min(_room(slack, change), _room(multiplier, turn), _room(point, move)))
        moved = point + length * move
        if not (moved > 0).all() or not (slack_of(moved) > 0).all():
            break
        point, slack, multiplier = moved, slack_of(moved), multiplier + length * turn
        if float(slack @ multiplier) <= LARGEST_GAP and np.abs(move).max() <= LARGEST_MOVE:
            break
    return point


def _step_of_coordinates(fixed: Array, rows: Array) -> Step:
    """Solve for the coordinates, then for the forces that keep what is fixed. Rows of many constraints are sparse."""
    sparse = csr_array(rows)

    def step(curvature: Array, weights: Array, right: Array) -> Array:
        matrix = (sparse.T @ (sparse * weights[:, None])).toarray()
        matrix[np.diag_indices(curvature.size)] += curvature
        factor = cho_factor(matrix)
        held = cho_solve(factor, fixed.T)
        free = cho_solve(factor, right)
        return np.asarray(free - held @ cho_solve(cho_factor(fixed @ held), fixed @ free))

    return step


def _step_of_rows(fixed: Array, rows: Array) -> Step:
    """Solve for the forces on the rows instead, of which there are fewer."""
    both = np.vstack([rows, fixed])

    def step(curvature: Array, weights: Array, right: Array) -> Array:
        matrix = (both / curvature) @ both.T
        matrix[np.diag_indices(len(rows))] += 1.0 / weights
        forces = cho_solve(cho_factor(matrix), both @ (right / curvature))
        return np.asarray((right - both.T @ forces) / curvature)

    return step


def _room(values: Array, change: Array) -> float:
    """The longest step for which `values + step * change` stays positive."""
    shrinking = change < 0
    return float(np.min(-values[shrinking] / change[shrinking], initial=np.inf))


def _onto(fixed: Array, point: Array) -> Array:
    """The point, moved by rounding errors, so that the equalities hold and it sums to 1."""
    right = np.zeros(len(fixed))
    right[-1] = 1.0
    moved = point + np.linalg.lstsq(fixed, right - fixed @ point, rcond=None)[0]
    return np.asarray(moved) if (moved > 0).all() else point
