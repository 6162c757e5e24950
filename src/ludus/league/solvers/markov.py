"""The stationary distribution of a Markov chain by its rates, exact to rounding for rates of any size.

Grassmann, Taksar and Heyman's elimination adds, multiplies and divides, and never subtracts, so that every probability
has a small relative error, however rare some moves are. Rates are given as logarithms: where plain numbers would vanish
(1e-16 to the twentieth), the same elimination runs on the logarithms, about ten times slower.
Large chains without rare moves are solved as linear equations, which is faster and exact to about 1e-12 of the whole.
Invariant: the chain must be irreducible; then the answer is finite and sums to 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.special import logsumexp

from ludus.league.payoffs.normal_form import Array

SMALLEST_PLAIN = -40.0
"""Logarithm of the smallest rate for which plain numbers are tried."""
SMALLEST_COMMON = -12.0
"""Logarithm of the smallest rate that is not rare."""
LARGE = 300


def stationary_distribution(log_rates: Array) -> Array:
    """Shares of time in each state. `log_rates[i, j]` is of the move from i to j, -inf for none; `[n, n]`."""
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
