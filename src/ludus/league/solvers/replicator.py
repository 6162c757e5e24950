"""Projected replicator dynamics (Lanctot et al. 2017, the first PSRO paper): shares grow with their success.

    s_k <- project(s_k + dt s_k (u_k - s_k . u_k)),    project: the nearest strategy with no share below `floor`

u_k are the payoffs of player k's policies against the others' present strategies. The answer is the mean over all
steps, the uniform start among them. The floor keeps every policy alive. It is OpenSpiel's
`projected_replicator_dynamics` for the same step and number of steps; the defaults here are ten times fewer steps that
are ten times longer. Invariant: a step is never longer than one over the largest difference of payoffs, beyond which
the dynamics are not defined.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ludus.errors import LudusError
from ludus.league.payoffs.normal_form import Array, completed, payoffs_against, unit_scaled_by_player


def projected_replicator(
    table: ArrayLike, *, steps: int = 10_000, dt: float = 1e-2, floor: float = 1e-6
) -> list[Array]:
    """One strategy per player; `floor` is cut to what a uniform strategy can keep."""
    if steps < 0 or not dt > 0 or not 0.0 <= floor < np.inf:
        raise LudusError(f"prd: needs steps >= 0, dt > 0 and floor >= 0, not {steps}, {dt}, {floor}")
    payoffs, scale = unit_scaled_by_player(completed(table))
    lengths = [min(dt * unit, 0.5) for unit in scale.tolist()]
    present = [np.full(count, 1.0 / count) for count in payoffs.shape[1:]]
    total = [share.copy() for share in present]
    for number in range(steps):
        moved = [_step(payoffs, present, player, length, floor) for player, length in enumerate(lengths)]
        at_rest = all(np.array_equal(new, old) for new, old in zip(moved, present, strict=True))
        repeats = steps - number if at_rest else 1
        total = [summed + repeats * share for summed, share in zip(total, moved, strict=True)]
        if at_rest:
            break
        present = moved
    return [summed / summed.sum() for summed in total]


def _step(payoffs: Array, strategies: list[Array], player: int, length: float, floor: float) -> Array:
    own = strategies[player]
    values = payoffs_against(payoffs, strategies, player)
    return _project(own + length * own * (values - values @ own), min(floor, 1.0 / own.size))


def _project(weights: Array, floor: float) -> Array:
    """The nearest point, in Euclidean distance, with no entry below `floor` and a sum of 1 (Duchi et al. 2008)."""
    descending = np.sort(weights)[::-1]
    count = np.arange(1, weights.size + 1)
    shifts = (1.0 - np.cumsum(descending) - (weights.size - count) * floor) / count
    above = np.flatnonzero(descending + shifts > floor)
    return np.asarray(np.maximum(weights + shifts[above[-1] if above.size else 0], floor))
