"""Games in normal form: tables `[players, a1, ..., an]` of what each player gets when player k plays its policy a_k.

Invariant: what `completed` returns is finite and keeps two properties of the table it was given: a sum of payoffs that
is the same everywhere stays so, and, when asked for, seats are interchangeable. NaN is a missing cell. A profile of
which any player's payoff is missing is missing for all, and is read as each player's mean over the known profiles (0
if none is known).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import permutations
from math import factorial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ludus.errors import LudusError

Array = NDArray[np.float64]
"""A table `[players, a1, ..., an]`, a distribution `[a]`, or a joint distribution `[a1, ..., an]`."""


def zero_sum_table(matrix: ArrayLike) -> Array:
    """The table of a two-player game where the second player loses what the first one gets: `matrix` is `[a1, a2]`."""
    payoffs = _matrix(matrix)
    return np.stack([payoffs, -payoffs])


def symmetric_table(matrix: ArrayLike) -> Array:
    """The table of a two-player game with one population: what the row's policy gets against the column's, `[a, a]`."""
    payoffs = _matrix(matrix)
    if payoffs.shape[0] != payoffs.shape[1]:
        raise LudusError(f"a population that meets itself has a square matrix of payoffs, not one of {payoffs.shape}")
    return np.stack([payoffs, payoffs.T])


def checked(table: ArrayLike) -> Array:
    """The table as float64, if it is one; missing cells may be NaN."""
    values = np.asarray(table, dtype=np.float64)
    if values.ndim < 3 or values.shape[0] != values.ndim - 1:
        raise LudusError(
            f"a payoff table has the shape [players, a1, ..., an] with at least 2 players, not {list(values.shape)}; "
            "for one matrix use zero_sum_table(matrix) or symmetric_table(matrix)"
        )
    if 0 in values.shape:
        raise LudusError(f"every player needs at least one policy; the payoff table has the shape {list(values.shape)}")
    if np.isinf(values).any():
        first = [int(index) for index in np.argwhere(np.isinf(values))[0]]
        raise LudusError(f"the payoff at {first} is infinite; payoffs must be finite, or NaN where they are missing")
    return values


def completed(table: ArrayLike, *, symmetric: bool = False) -> Array:
    """The table without missing cells; with `symmetric`, averaged over all ways to seat the same policies."""
    values = checked(table)
    if not symmetric and not np.isnan(values).any():
        return values
    exponent = _exponent(values)
    unit = np.ldexp(values, -exponent)  # a power of 2: exact, and no mean overflows
    unit = np.where(np.isnan(unit).any(axis=0), np.nan, unit)
    return np.ldexp(_filled(symmetrised(unit) if symmetric else unit), exponent)


def symmetrised(table: Array) -> Array:
    """The table averaged over the known seatings of the same policies; NaN where none is known."""
    players = len(table)
    if len(set(table.shape[1:])) != 1:
        raise LudusError(
            f"players who share a population have equally many policies; the table has {list(table.shape[1:])}"
        )
    total, known = np.zeros(table.shape), np.zeros(table.shape)
    for seats in permutations(range(players)):
        # Player k's payoff once player seats[k] has taken its place and everybody brought its policy along.
        turned = np.transpose(table, (0, *(1 + seat for seat in seats)))[list(seats)]
        total += np.nan_to_num(turned)
        known += ~np.isnan(turned)
    return np.where(known > 0, total / np.maximum(known, 1), np.nan)


def seatings(shape: Sequence[int]) -> NDArray[np.int64]:
    """In how many ways the policies of each profile can be seated, all from one population. `[a, ..., a]`."""
    policies = np.sort(np.indices(shape), axis=0)
    same = run = np.ones(tuple(shape), np.int64)
    for seat in range(1, len(shape)):
        run = np.where(policies[seat] == policies[seat - 1], run + 1, 1)
        same = same * run
    return np.asarray(factorial(len(shape)) // same)


def unit_scaled(table: Array) -> Array:
    """A complete table divided by the power of 2 that brings its largest absolute payoff into [0.5, 1)."""
    return np.ldexp(table, -_exponent(table))


def unit_scaled_by_player(table: Array) -> tuple[Array, Array]:
    """A complete table with each player's payoffs centred and within [-1, 1], and the powers of 2 that did it.

    No player's deviation becomes more or less worthwhile by it: `scale` is `[players]`.
    """
    flat = table.reshape(len(table), -1)
    centred = flat - (flat.max(axis=1, keepdims=True) / 2.0 + flat.min(axis=1, keepdims=True) / 2.0)
    exponents = np.frexp(np.abs(centred).max(axis=1))[1]
    return np.ldexp(centred, -exponents[:, None]).reshape(table.shape), np.ldexp(1.0, np.minimum(exponents, 1023))


def payoffs_against(table: Array, strategies: Sequence[Array], player: int) -> Array:
    """What each policy of a player gets when the others draw theirs independently from their strategies. `[a_k]`."""
    values = np.moveaxis(table[player], player, 0)
    for other in reversed([strategy for k, strategy in enumerate(strategies) if k != player]):
        values = values @ other
    return np.asarray(values)


def product(strategies: Sequence[Array]) -> Array:
    """The joint distribution of independent draws. `[a1, ..., an]`."""
    return np.asarray(reduce(np.multiply.outer, strategies))


def marginals(joint: Array) -> list[Array]:
    """Each player's own distribution under a joint one."""
    axes = range(joint.ndim)
    return [joint.sum(axis=tuple(axis for axis in axes if axis != player)) for player in axes]


def expected_payoffs(table: Array, joint: Array) -> Array:
    """What each player gets on average under a joint distribution. `[players]`."""
    return np.asarray((table * joint).reshape(len(table), -1).sum(axis=1))


def nash_conv(table: ArrayLike, strategies: Sequence[Array]) -> float:
    """What all players together could gain, each by its best policy while the others stay: 0 at a Nash equilibrium."""
    payoffs = completed(table)
    against = [payoffs_against(payoffs, strategies, player) for player in range(len(payoffs))]
    return float(sum(values.max() - values @ own for values, own in zip(against, strategies, strict=True)))


def normalised(weights: Array) -> Array:
    """Weights as probabilities: below 0 is rounding and counts as 0; uniform if nothing is left."""
    positive = np.maximum(weights, 0.0)
    most = positive.max()
    if most == 0.0:
        return np.full(weights.shape, 1.0 / weights.size)
    positive = positive / most
    return np.asarray(positive / positive.sum())


def scattered(values: Array, places: NDArray[np.intp] | NDArray[np.bool_], size: int) -> Array:
    """A vector with these values at these places, 0 elsewhere. `[size]`."""
    whole = np.zeros(size)
    whole[places] = values
    return whole


def _matrix(matrix: ArrayLike) -> Array:
    values = np.asarray(matrix, dtype=np.float64)
    if values.ndim != 2:
        raise LudusError(f"expected a matrix of payoffs, got an array of the shape {list(values.shape)}")
    return values


def _exponent(values: Array) -> int:
    most = np.nanmax(np.abs(values), initial=0.0, where=~np.isnan(values))
    return int(np.frexp(most)[1])


def _filled(table: Array) -> Array:
    missing = np.isnan(table).any(axis=0)
    if not missing.any():
        return table
    known = table[:, ~missing]
    means = known.mean(axis=1) if known.size else np.zeros(len(table))
    return np.where(missing, means.reshape(-1, *[1] * missing.ndim), table)
