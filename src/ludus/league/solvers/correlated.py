"""Correlated and coarse correlated equilibria of games with any number of players and any payoffs.

A joint distribution is a correlated equilibrium (CE, Aumann 1974) if no player gains by replacing one policy by another
whenever it is told to play it, and a coarse correlated one (CCE) if none gains by deciding for one policy beforehand:

    CE:   for all k, a, b:  sum over a_-k of  s(a, a_-k) (u_k(b, a_-k) - u_k(a, a_-k))  <=  epsilon
    CCE:  for all k, b:     sum over all a of  s(a) (u_k(b, a_-k) - u_k(a))             <=  epsilon

Every CE is a CCE, and every game has both. Among the many, `select` takes the one of highest entropy (Ortiz et al.
2007), of highest Gini impurity `1 - sum s^2` (Marris et al. 2021, JPSRO), or one of highest welfare: the sum of all
players' payoffs. The first two are unique; of several with the highest welfare it is the vertex HiGHS ends on.
Invariant: constraints hold to 1e-9 of the range of the payoffs. Not covered: where HiGHS cannot find the set of all
equilibria (not seen so far), the answer is that of `max_welfare`, an equilibrium still.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ludus.errors import LudusError
from ludus.league.payoffs.normal_form import Array, completed, normalised, scattered, unit_scaled, unit_scaled_by_player
from ludus.league.solvers.face import NEGATIVE_ENTROPY, NOISE, SQUARED_NORM, find_face, minimise, run_linear_program

Select = Literal["max_entropy", "max_gini", "max_welfare"]


def correlated(table: ArrayLike, *, select: Select = "max_entropy", epsilon: float = 0.0) -> Array:
    """A correlated equilibrium, `[a1, ..., an]`; `epsilon` is what a player may gain, in units of the payoffs."""
    return _choose(completed(table), deviation_gains, epsilon, select)


def coarse_correlated(table: ArrayLike, *, select: Select = "max_entropy", epsilon: float = 0.0) -> Array:
    """A coarse correlated equilibrium, `[a1, ..., an]`; `epsilon` as for `correlated`."""
    return _choose(completed(table), commitment_gains, epsilon, select)


def ce_gap(table: ArrayLike, joint: Array) -> float:
    """What all players together gain if each answers every advice by the best policy; 0 at a CE."""
    payoffs = completed(table)
    gains = iter(deviation_gains(payoffs) @ joint.ravel())
    total = 0.0
    for count in joint.shape:
        for _ in range(count):
            total += max([0.0, *(float(next(gains)) for _ in range(count - 1))])
    return total


def cce_gap(table: ArrayLike, joint: Array) -> float:
    """What all players together gain if each commits to its best policy beforehand; 0 at a CCE."""
    payoffs = completed(table)
    gains = np.split(commitment_gains(payoffs) @ joint.ravel(), np.cumsum(joint.shape)[:-1])
    return float(sum(max(0.0, float(values.max())) for values in gains))


def deviation_gains(table: Array) -> Array:
    """What a player gains at each profile by playing b whenever told a. `[sum of a_k (a_k - 1), profiles]`."""
    rows = []
    for player, count in enumerate(table.shape[1:]):
        by_policy = np.moveaxis(table[player], player, 0)
        for told in range(count):
            for played in range(count):
                if played != told:
                    row = np.zeros(by_policy.shape)
                    row[told] = by_policy[played] - by_policy[told]
                    rows.append(np.moveaxis(row, 0, player).ravel())
    return np.array(rows).reshape(-1, table[0].size)


def commitment_gains(table: Array) -> Array:
    """What a player gains at each profile by playing b instead. `[sum of a_k, profiles]`."""
    rows = [
        (np.take(payoffs, [played], axis=player) - payoffs).ravel()
        for player, payoffs in enumerate(table)
        for played in range(payoffs.shape[player])
    ]
    return np.array(rows)


def _choose(table: Array, gains_of: Callable[[Array], Array], epsilon: float, select: Select) -> Array:
    if not 0.0 <= epsilon < np.inf:
        raise LudusError(f"epsilon must be finite and not negative, not {epsilon}")
    if select not in ("max_entropy", "max_gini", "max_welfare"):
        raise LudusError(f"select is max_entropy, max_gini or max_welfare, not {select!r}")
    unit, scale = unit_scaled_by_player(table)
    # What each player may gain, in its own unit; more than everything is as good as everything.
    shares = np.minimum(epsilon / 4.0, scale) / scale * 4.0
    counts = [count * (count - 1) if gains_of is deviation_gains else count for count in table.shape[1:]]
    constraints = gains_of(unit) - np.repeat(shares, counts)[:, None]
    face = find_face(constraints) if select != "max_welfare" else None
    if face is None:
        return _most_welfare(table, constraints)
    point = minimise(NEGATIVE_ENTROPY if select == "max_entropy" else SQUARED_NORM, face)
    return normalised(scattered(point, face.support, constraints.shape[1])).reshape(table.shape[1:])


def _most_welfare(table: Array, constraints: Array) -> Array:
    """A vertex with the highest sum of payoffs."""
    scale = np.abs(constraints).max(axis=1, initial=0.0)
    rows = constraints[scale > NOISE] / scale[scale > NOISE, None]
    welfare = unit_scaled(unit_scaled(table).sum(axis=0)).ravel()
    limits = {"A_ub": rows, "b_ub": np.zeros(len(rows))} if rows.size else {}
    solved = run_linear_program(-welfare, A_eq=np.ones((1, welfare.size)), b_eq=[1.0], **limits)
    return normalised(solved.x).reshape(table.shape[1:])
