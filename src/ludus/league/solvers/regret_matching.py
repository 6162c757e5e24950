"""Regret matching (Hart and Mas-Colell 2000): play each policy in proportion to how much it is regretted so far.

    r_k <- r_k + u_k - s_k . u_k,    s_k in proportion to max(r_k, 0), uniform where nothing is regretted

u_k are the expected payoffs of player k's policies against the others' present strategies. The answer is the mean over
all rounds of what they play together, a joint distribution: it approaches a coarse correlated equilibrium in every
game, and its marginals a Nash equilibrium in two-player zero-sum games (both gaps fall like t^-1/2).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ludus.errors import LudusError
from ludus.league.payoffs.normal_form import (
    Array,
    completed,
    normalised,
    payoffs_against,
    product,
    unit_scaled_by_player,
)


def regret_matching(table: ArrayLike, *, rounds: int = 10_000) -> Array:
    """A joint distribution, `[a1, ..., an]`."""
    if rounds < 0:
        raise LudusError(f"regret_matching: rounds must not be negative, not {rounds}")
    payoffs, _ = unit_scaled_by_player(completed(table))
    regrets = [np.zeros(count) for count in payoffs.shape[1:]]
    present = [normalised(regret) for regret in regrets]
    total = product(present)
    for _ in range(rounds):
        values = [payoffs_against(payoffs, present, player) for player in range(len(payoffs))]
        regrets = [regret + value - value @ own for regret, value, own in zip(regrets, values, present, strict=True)]
        present = [normalised(regret) for regret in regrets]
        total += product(present)
    return np.asarray(total / total.sum())
