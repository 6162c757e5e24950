"""Meta-solvers that solve no program: fixed rules (uniform, PFSP), and dynamics in which all players adapt at once.

The answer of the dynamics is what players did on average over all rounds. u_k are the expected payoffs of player k's
policies against the others' present strategies. Invariant: there, payoffs only count up to each player's own scale.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ludus.errors import LudusError
from ludus.league.matchmaking.matchmaker import PFSP_WEIGHTINGS
from ludus.league.payoffs.normal_form import (
    Array,
    checked,
    completed,
    normalised,
    payoffs_against,
    product,
    unit_scaled_by_player,
)

TIE = 1e-12


def uniform(table: ArrayLike, *, newest: int | None = None) -> list[Array]:
    """Every policy equally often, or only the last `newest` of each player, in the order they joined.

    With all policies it is fictitious self-play; with `newest=1` every learner meets the last policy only (iterated
    best response, self-play), with a few it meets recent ones (Bansal et al. 2018).
    """
    if newest is not None and newest < 1:
        raise LudusError(f"uniform: newest must be at least 1, not {newest}")
    counts = [(count, min(newest or count, count)) for count in checked(table).shape[1:]]
    return [np.repeat([0.0, 1.0 / last], [count - last, last]) for count, last in counts]


def pfsp(table: ArrayLike, *, weighting: str = "squared", bounds: tuple[float, float] | None = None) -> list[Array]:
    """Prioritised fictitious self-play: policies that do well against the newest ones, more often.

    A policy of player k is weighed by f(1 - s): s is its score, in [0, 1], when every other player plays its newest
    policy, so that 1 - s is what the learner gets against it. f is one of `PFSP_WEIGHTINGS`. `bounds` are what a lost
    and a won game pay, by default the table's extremes: a payoff scores `(payoff - low) / (high - low)`, cut to [0, 1].
    Uniform where all weights are 0.
    """
    if weighting not in PFSP_WEIGHTINGS:
        raise LudusError(f"pfsp: weighting is one of {', '.join(PFSP_WEIGHTINGS)}, not {weighting!r}")
    payoffs = completed(table)
    low, high = bounds or (float(payoffs.min()), float(payoffs.max()))
    if not -np.inf < low <= high < np.inf:
        raise LudusError(f"pfsp: bounds are a lowest and a highest payoff, not {bounds}")
    newest = (-1,) * (len(payoffs) - 1)
    against_newest = [np.moveaxis(own, player, 0)[(slice(None), *newest)] for player, own in enumerate(payoffs)]
    return [_weighed(values, low, high, weighting) for values in against_newest]


def _weighed(values: Array, low: float, high: float, weighting: str) -> Array:
    # Halves, because the range of finite payoffs need not be finite.
    span = high / 2.0 - low / 2.0
    scores = np.clip((values / 2.0 - low / 2.0) / span, 0.0, 1.0) if span > 0 else np.full(values.shape, 0.5)
    return normalised(np.array([PFSP_WEIGHTINGS[weighting](float(1.0 - score)) for score in scores]))


def fictitious_play(table: ArrayLike, *, rounds: int = 10_000, tolerance: float = 1e-6) -> list[Array]:
    """Fictitious play (Brown 1951): each round every player best-responds to what the others did on average so far.

        s_k <- s_k + (b_k - s_k) / (t + 1),    b_k uniform over the best replies to the others' averages

    All players move at once, from uniform; equally good replies share the round, so the answer does not depend on the
    order of policies. The averages approach a Nash equilibrium in zero-sum and potential games, slowly (the gap falls
    like t^-1/2); in other games they need not converge, and the answer is then the last average. Ends early once no
    player can gain more than `tolerance` of its range.
    """
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


def regret_matching(table: ArrayLike, *, rounds: int = 10_000) -> Array:
    """Regret matching (Hart and Mas-Colell 2000): play each policy in proportion to how much it is regretted so far.

        r_k <- r_k + u_k - s_k . u_k,    s_k in proportion to max(r_k, 0), uniform where nothing is regretted

    The answer is the mean over all rounds of what they play together, a joint distribution `[a1, ..., an]`: it
    approaches a coarse correlated equilibrium in every game, and its marginals a Nash equilibrium in two-player
    zero-sum games (both gaps fall like t^-1/2).
    """
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


def projected_replicator(
    table: ArrayLike, *, steps: int = 10_000, dt: float = 1e-2, floor: float = 1e-6
) -> list[Array]:
    """Projected replicator dynamics (Lanctot et al. 2017, the first PSRO paper): shares grow with their success.

        s_k <- project(s_k + dt s_k (u_k - s_k . u_k)),    project: the nearest strategy with no share below `floor`

    The answer is the mean over all steps, the uniform start among them. The floor keeps every policy alive; it is cut
    to what a uniform strategy can keep. It is OpenSpiel's `projected_replicator_dynamics` for the same step and number
    of steps; the defaults here are ten times fewer steps that are ten times longer. A step is never longer than one
    over the largest difference of payoffs, beyond which the dynamics are not defined.
    """
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
