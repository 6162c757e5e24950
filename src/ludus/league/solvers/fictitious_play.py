"""Fictitious play (Brown 1951): each round every player best-responds to what the others did on average so far.

    s_k <- s_k + (b_k - s_k) / (t + 1),    b_k uniform over the best replies to the others' averages

All players move at once, from uniform; equally good replies share the round, so the answer does not depend on the order
of policies. The averages approach a Nash equilibrium in zero-sum and potential games, slowly (the gap falls like
t^-1/2); in other games they need not converge, and the answer is then the last average. Invariant: payoffs only count
up to each player's own scale.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ludus.errors import LudusError
from ludus.league.payoffs.normal_form import Array, completed, payoffs_against, unit_scaled_by_player

TIE = 1e-12


def fictitious_play(table: ArrayLike, *, rounds: int = 10_000, tolerance: float = 1e-6) -> list[Array]:
    """One strategy per player; ends early once no player can gain more than `tolerance` of its range."""
    if rounds < 0:
        raise LudusError(f"fictitious_play: rounds must not be negative, not {rounds}")
    payoffs, _ = unit_scaled_by_player(completed(table))
    averages = [np.full(count, 1.0 / count) for count in payoffs.shape[1:]]
    for number in range(1, rounds + 1):
        values = [payoffs_against(payoffs, averages, player) for player in range(len(payoffs))]
        gains = [float(value.max() - value @ own) for value, own in zip(values, averages, strict=True)]
        if max(gains) <= tolerance:
            break
        averages = [own + (_best_replies(v) - own) / (number + 1) for v, own in zip(values, averages, strict=True)]
    return [average / average.sum() for average in averages]


def _best_replies(values: Array) -> Array:
    best = values >= values.max() - TIE
    return np.asarray(best / best.sum())
