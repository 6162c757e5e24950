"""Minimise a separable convex function over a face, along the central path of a primal-dual interior-point method.

Invariant: every iterate is inside the face, so that the answer keeps all constraints to rounding, even where its value
is not yet exact. Dense: time grows with the cube of the coordinates or of the constraints, whichever are fewer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse import csr_array

from ludus.league.payoffs.normal_form import Array
from ludus.league.solvers.face import Face

MOST_STEPS = 100
LARGEST_GAP = 1e-13
"""How far from optimal the value may stay: the sum of slack times multiplier."""
LARGEST_MOVE = 1e-10
"""How far the last step may have gone."""
SHRINK = 0.1
TO_THE_EDGE = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A separable convex function of a positive point, by its derivatives."""

    slope: Callable[[Array], Array]
    curvature: Callable[[Array], Array]
    keeps_positive: bool
    """Whether its slope alone keeps every coordinate away from 0."""


NEGATIVE_ENTROPY = Objective(slope=lambda x: np.log(x) + 1.0, curvature=lambda x: 1.0 / x, keeps_positive=True)
SQUARED_NORM = Objective(slope=lambda x: 2.0 * x, curvature=lambda x: np.full_like(x, 2.0), keeps_positive=False)


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
