"""Meta-solvers of PSRO and leagues: from a table of payoffs to how often each policy of each population is played.

`solve` gives one strategy per player, `solve_joint` the distribution over profiles (of independent strategies, their
product). Add one by writing a function of a table that returns a list of strategies or a joint distribution, and
registering it: `register_meta_solver("mine", function)`; or install it as an entry point of the group
`ludus.meta_solvers`. Invariant: every answer is finite, not negative and sums to 1, and the same table always gives the
same answer.

Imports SciPy; the rest of the league does not, so import this package where a solver is needed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike

from ludus.errors import ConfigError, LudusError
from ludus.league.payoffs.normal_form import (
    Array,
    checked,
    completed,
    expected_payoffs,
    marginals,
    nash_conv,
    product,
    symmetric_table,
    zero_sum_table,
)
from ludus.league.solvers.alpha_rank import alpha_rank
from ludus.league.solvers.correlated import cce_gap, ce_gap, coarse_correlated, correlated
from ludus.league.solvers.nash import (
    RectifiedResponse,
    game_value,
    nash,
    rectified_nash,
    rectified_responses,
    relative_population_performance,
)
from ludus.league.solvers.simple import fictitious_play, pfsp, projected_replicator, regret_matching, uniform
from ludus.plugins import Registry

__all__ = [
    "META_SOLVERS",
    "MetaSolver",
    "RectifiedResponse",
    "alpha_rank",
    "cce_gap",
    "ce_gap",
    "coarse_correlated",
    "correlated",
    "expected_payoffs",
    "fictitious_play",
    "find_meta_solver",
    "game_value",
    "marginals",
    "nash",
    "nash_conv",
    "pfsp",
    "product",
    "projected_replicator",
    "rectified_nash",
    "rectified_responses",
    "register_meta_solver",
    "regret_matching",
    "relative_population_performance",
    "solve",
    "solve_joint",
    "symmetric_table",
    "uniform",
    "zero_sum_table",
]

MetaSolver = Callable[..., "list[Array] | Array"]
"""From a table `[players, a1, ..., an]` and options to one strategy per player, or to a joint distribution."""

META_SOLVERS: dict[str, MetaSolver] = {
    "alpha_rank": alpha_rank,
    "cce": coarse_correlated,
    "ce": correlated,
    "fictitious_play": fictitious_play,
    "nash": nash,
    "pfsp": pfsp,
    "prd": projected_replicator,
    "rectified_nash": rectified_nash,
    "regret_matching": regret_matching,
    "uniform": uniform,
}

SOLVERS: Registry[MetaSolver] = Registry("meta-solver", "ludus.meta_solvers", built_in=META_SOLVERS)


def register_meta_solver(name: str, solver: MetaSolver) -> None:
    """Make a meta-solver available by name."""
    SOLVERS.add(name, solver)


def solve(name: str, table: ArrayLike, *, symmetric: bool = False, **options: object) -> list[Array]:
    """One strategy per player.

    With `symmetric`, all players share one population and seats are interchangeable: the table is averaged over
    seatings first, and all strategies are the same.
    """
    answer = _run(name, table, symmetric, options)
    return _shared(name, answer if isinstance(answer, list) else marginals(answer), symmetric)


def solve_joint(name: str, table: ArrayLike, *, symmetric: bool = False, **options: object) -> Array:
    """A distribution over profiles, `[a1, ..., an]`; `symmetric` as for `solve`."""
    answer = _run(name, table, symmetric, options)
    if isinstance(answer, list):
        return product(_shared(name, answer, symmetric))
    if symmetric:
        answer = np.mean([np.transpose(answer, seats) for seats in permutations(range(answer.ndim))], axis=0)
    return _as_distribution(name, answer)


def find_meta_solver(name: str) -> MetaSolver:
    """The solver of this name, or an error that names the nearest one."""
    return SOLVERS.find(name)


def _run(name: str, table: ArrayLike, symmetric: bool, options: dict[str, object]) -> list[Array] | Array:
    solver = find_meta_solver(name)
    accepted = list(inspect.signature(solver).parameters)[1:]
    unknown = [option for option in options if option not in accepted]
    if unknown:
        known = ", ".join(option for option in accepted if option != "symmetric") or "no options"
        raise ConfigError(f"meta-solver {name} has no option {unknown[0]!r}; it takes {known}")
    if symmetric and "symmetric" in accepted:
        options = {**options, "symmetric": True}
    return solver(completed(table, symmetric=True) if symmetric else checked(table), **options)


def _shared(name: str, strategies: list[Array], symmetric: bool) -> list[Array]:
    """The strategies, checked; where players share a population, the mean for all of them."""
    if symmetric:
        strategies = [np.mean(strategies, axis=0)] * len(strategies)
    return [_as_distribution(name, strategy) for strategy in strategies]


def _as_distribution(name: str, values: Array) -> Array:
    """The values, if they are one up to rounding: what a registered solver returns is not taken on trust."""
    total = float(values.sum())
    if not np.isfinite(values).all() or values.min() < -1e-9 or abs(total - 1.0) > 1e-6:
        raise LudusError(f"meta-solver {name} gave no distribution: a sum of {total} and a minimum of {values.min()}")
    return np.asarray(np.maximum(values, 0.0) / np.maximum(values, 0.0).sum())
