"""α-rank (Omidshafiei et al. 2019): how long evolution stays at each profile of pure policies.

Populations of `population` individuals each play one policy; now and then a mutant tries another, and takes over with
the probability

    rho(u) = (1 - exp(-u)) / (1 - exp(-population u)),    rho(0) = 1 / population,
    u = alpha (payoff after - payoff before)

The answer is the stationary distribution of these moves between profiles, in which one player at a time changes its
policy. `alpha=inf`, the default, is the limit of strong selection: rho is 1 for a gain, 1/population for a tie, and
`epsilon` for a loss (1 - epsilon for a gain), with an epsilon so small that it only decides between sets of profiles
that nothing else leads out of. With `population=2` and the same epsilon this is OpenSpiel's infinite-α chain.
With `symmetric` two players share one population: states are single policies, and u = alpha (M[r, s] - M[s, r]) for a
mutant r among s (Omidshafiei's local selection).
Invariant: finite for every α. Memory grows with the square, time with the cube of the number of profiles.

`stationary_distribution` is exact to rounding for rates of any size: Grassmann, Taksar and Heyman's elimination adds,
multiplies and divides, and never subtracts, so that every probability has a small relative error, however rare some
moves are. Rates are given as logarithms: where plain numbers would vanish (1e-16 to the twentieth), the same
elimination runs on the logarithms, about ten times slower. Large chains without rare moves are solved as linear
equations, which is faster and exact to about 1e-12 of the whole.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.special import logsumexp

from ludus.errors import LudusError
from ludus.league.payoffs.normal_form import Array, completed, scattered, unit_scaled_by_player

TIE = 1e-12
"""Payoffs that differ by less than this share of a player's largest are equal in the limit of strong selection."""
MOST_PROFILES = 5_000
STRONGEST = 1e100
NEGLIGIBLE = 1e-12
SMALLEST_PLAIN = -40.0
"""Logarithm of the smallest rate for which plain numbers are tried."""
SMALLEST_COMMON = -12.0
"""Logarithm of the smallest rate that is not rare."""
LARGE = 300
"""States from which on a chain without rare moves is solved as linear equations."""


def alpha_rank(
    table: ArrayLike,
    *,
    alpha: float = np.inf,
    population: int = 50,
    epsilon: float = 1e-16,
    symmetric: bool = False,
) -> Array | list[Array]:
    """The joint distribution over profiles; with `symmetric` and two players, one strategy for both."""
    if not alpha > 0 or population < 2 or not 0.0 < epsilon < 0.5:
        raise LudusError(
            f"alpha_rank: needs alpha > 0, population >= 2 and 0 < epsilon < 0.5, not {alpha}, {population}, {epsilon}"
        )
    payoffs, scale = unit_scaled_by_player(completed(table, symmetric=symmetric))

    def log_rho(gains: Array, player: int) -> Array:
        if alpha == np.inf:
            return _limit(gains, population, epsilon)
        # α in units of the scaled payoffs. Beyond the bound selection is as strong as it gets, and sums stay finite.
        strength = min(alpha * min(float(scale[player]), STRONGEST), STRONGEST)
        return _log_fixation(strength * gains, population)

    def stay(log_rates: Array) -> Array:
        if alpha == np.inf and epsilon <= NEGLIGIBLE:
            return _stationary_without_losses(log_rates, epsilon)
        return stationary_distribution(log_rates)

    if symmetric and len(payoffs) == 2:
        shares = stay(log_rho(payoffs[0].T - payoffs[0], 0))
        return [shares, shares.copy()]
    if (profiles := payoffs[0].size) > MOST_PROFILES:
        raise LudusError(
            f"alpha_rank of {profiles} profiles would need a matrix of {profiles} times {profiles}; at most "
            f"{MOST_PROFILES} are allowed. Use fewer policies or, where two players share a population, symmetric=True"
        )
    return stay(_moves(payoffs, log_rho)).reshape(payoffs.shape[1:])


def _stationary_without_losses(log_rates: Array, epsilon: float) -> Array:
    """The limit of a negligible epsilon: if gains and ties all end in one set of profiles, nothing else counts."""
    matters = log_rates > np.log(2.0 * epsilon)
    within = sink(matters)
    if within is None:
        return stationary_distribution(log_rates)
    inside = np.ix_(within, within)
    shares = stationary_distribution(np.where(matters[inside], log_rates[inside], -np.inf))
    return scattered(shares, within, len(log_rates))


def _moves(payoffs: Array, log_rho: Callable[[Array, int], Array]) -> Array:
    """Logarithms of the rates between profiles that differ in one player's policy. `[profiles, profiles]`."""
    shape = payoffs.shape[1:]
    numbers = np.arange(payoffs[0].size).reshape(shape)
    rates = np.full((numbers.size, numbers.size), -np.inf)
    for player, count in enumerate(shape):
        own = np.moveaxis(payoffs[player], player, -1).reshape(-1, count)
        profile = np.moveaxis(numbers, player, -1).reshape(-1, count)
        rates[profile[:, :, None], profile[:, None, :]] = log_rho(own[:, None, :] - own[:, :, None], player)
    return rates


def _log_fixation(u: Array, population: int) -> Array:
    """Logarithm of rho; for a loss, rho(-w) = exp(-(population - 1) w) rho(w)."""
    size = np.maximum(np.abs(u), 1e-300)
    gain = np.log(-np.expm1(-size)) - np.log(-np.expm1(-population * size))
    return np.asarray(np.where(u >= 0, gain, gain - (population - 1) * size))


def _limit(gains: Array, population: int, epsilon: float) -> Array:
    rho = np.where(gains > 0, 1.0 - epsilon, epsilon)
    return np.asarray(np.log(np.where(np.abs(gains) <= TIE, 1.0 / population, rho)))


def stationary_distribution(log_rates: Array) -> Array:
    """Shares of time in each state. `log_rates[i, j]` is of the move from i to j, -inf for none; `[n, n]`.

    The chain must be irreducible; then the answer is finite and sums to 1.
    """
    rates = log_rates.copy()
    np.fill_diagonal(rates, -np.inf)
    smallest = np.min(rates, initial=0.0, where=np.isfinite(rates))
    if smallest >= SMALLEST_PLAIN:
        plain = (_solve if len(rates) > LARGE and smallest >= SMALLEST_COMMON else _eliminate)(np.exp(rates))
        if plain is not None:
            return plain
    return _eliminate_logarithms(rates)


def sink(moves: NDArray[np.bool_]) -> NDArray[np.intp] | None:
    """The states of the only set that no move leads out of; None if there are several such sets. `[n, n]`."""
    count, labels = connected_components(csr_array(moves), connection="strong")
    leaves = np.zeros(count, np.bool_)
    start, end = np.nonzero(moves)
    leaves[labels[start[labels[start] != labels[end]]]] = True
    return np.flatnonzero(labels == np.argmin(leaves)) if (~leaves).sum() == 1 else None


def _solve(rates: Array) -> Array | None:
    """What flows out of each state flows in, and shares sum to 1; by elimination where that is not exact enough."""
    balance = rates.T - np.diag(rates.sum(axis=1))
    balance[-1] = 1.0
    shares = np.maximum(np.linalg.solve(balance, np.eye(len(rates))[-1]), 0.0)
    shares /= shares.sum()
    return shares if np.abs(shares @ rates - shares * rates.sum(axis=1)).max() < 1e-12 else _eliminate(rates)


def _eliminate(rates: Array) -> Array | None:
    """Remove one state after the other, passing its moves on to the rest; None if a number vanished."""
    for last in range(len(rates) - 1, 0, -1):
        out = rates[last, :last].sum()
        if not out > 1e-290:
            return None
        rates[:last, last] /= out
        rates[:last, :last] += np.outer(rates[:last, last], rates[last, :last])
    shares = np.zeros(len(rates))
    shares[0] = 1.0
    for state in range(1, len(rates)):
        shares[state] = shares[:state] @ rates[:state, state]
        shares[: state + 1] /= shares[: state + 1].sum()
    return shares if np.isfinite(shares).all() else None


def _eliminate_logarithms(rates: Array) -> Array:
    for last in range(len(rates) - 1, 0, -1):
        rates[:last, last] -= logsumexp(rates[last, :last])
        passed_on = rates[:last, last, None] + rates[None, last, :last]
        np.logaddexp(rates[:last, :last], passed_on, out=rates[:last, :last])
    shares = np.full(len(rates), -np.inf)
    shares[0] = 0.0
    for state in range(1, len(rates)):
        shares[state] = logsumexp(shares[:state] + rates[:state, state])
    return np.asarray(np.exp(shares - logsumexp(shares)))
