"""Meta-strategies of a zero-sum payoff table: how often each policy of the two populations is played.

Invariant: what comes out are two finite distributions over all rows and all columns, whatever the table. Nash is exact
on the whole table although only a part of it goes through the linear program: the result is checked against every row
and column, and those that would do better are let in. All other meta-solvers are those of `league/solvers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from ludus.errors import TrainError
from ludus.league.payoffs.normal_form import scattered, zero_sum_table
from ludus.league.solvers import solve

Floats = NDArray[np.float64]
Chosen = NDArray[np.bool_]

_NEGLIGIBLE = 1e-12
"""Weights below this are rounding."""
_BETTER = 1e-10
"""By how much a row or column must do better, relative to the largest payoff, to be let in."""
SMALL = 100
"""Tables up to this size go through the linear program whole: less than finding out which part of them matters."""


class MetaStrategy(NamedTuple):
    """A distribution over the policies of each seat."""

    rows: Floats
    columns: Floats


def solve_meta_game(
    solver: str, payoffs: Floats, candidates: tuple[Chosen, Chosen], options: Mapping[str, Any] | None = None
) -> MetaStrategy:
    """The meta-strategy of a payoff table, which holds what the rows' seat gets.

    Args:
        solver: the name of a meta-solver.
        payoffs: `[rows, columns]`.
        candidates: which rows and columns a solution is likely to use; at least one of each. Changes the time it takes,
            and which one of several equilibria is found.
        options: of the meta-solver; nash with options goes through the whole table.
    """
    if solver != "nash" or options:
        return MetaStrategy(*solve(solver, zero_sum_table(payoffs), **(options or {})))
    return solve_nash(payoffs) if max(payoffs.shape) <= SMALL else _solve_by_parts(payoffs, candidates)


def solve_nash(payoffs: Floats) -> MetaStrategy:
    """An equilibrium of a zero-sum table: the rows' maximin by a linear program, the columns' from its dual."""
    rows, columns = payoffs.shape
    scaled = payoffs / (np.abs(payoffs).max() or 1.0)
    found = linprog(
        c=np.append(np.zeros(rows), -1.0),  # maximise what the rows' seat is sure of ...
        A_ub=np.column_stack([-scaled.T, np.ones(columns)]),  # ... which no column may bring below
        b_ub=np.zeros(columns),
        A_eq=np.append(np.ones(rows), 0.0)[None],
        b_eq=[1.0],
        bounds=[*[(0.0, None)] * rows, (None, None)],
        method="highs",
    )
    if found.status != 0:
        raise TrainError(f"no equilibrium of a payoff table of {rows} by {columns} was found: {found.message}")
    return MetaStrategy(rows=_distribution(found.x[:-1]), columns=_distribution(-found.ineqlin.marginals))


def _solve_by_parts(payoffs: Floats, candidates: tuple[Chosen, Chosen]) -> MetaStrategy:
    """Solve among the candidates, let in policies that would do better against that, until there are none."""
    rows, columns = candidates[0].copy(), candidates[1].copy()
    slack = _BETTER * np.abs(payoffs).max()
    while True:
        part = solve_nash(payoffs[np.ix_(rows, columns)])
        whole = MetaStrategy(
            rows=scattered(part.rows, rows, len(rows)), columns=scattered(part.columns, columns, len(columns))
        )
        by_row, by_column = payoffs @ whole.columns, whole.rows @ payoffs
        value = float(by_column @ whole.columns)
        better_rows, better_columns = ~rows & (by_row > value + slack), ~columns & (by_column < value - slack)
        if not better_rows.any() and not better_columns.any():
            return whole
        rows |= better_rows
        columns |= better_columns


def _distribution(weights: Floats) -> Floats:
    kept: Floats = np.where(weights > _NEGLIGIBLE, weights, 0.0)
    total = float(kept.sum())
    if not np.isfinite(total) or total <= 0:
        raise TrainError(f"the weights of {len(weights)} policies are no distribution: they add up to {total}")
    normalised: Floats = kept / total
    return normalised
