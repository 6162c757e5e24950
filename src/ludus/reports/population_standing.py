"""A population as a person reads it, computed or learnt: its ladder by every measure that its payoffs allow, what pairs
of its policies get, and its history.

Made by `exact_population` and `runs/population/standing`, drawn by `charts`, printed by `tables`.
Invariant: where something is not known it is None, NaN or empty, never a guess. Measures are about policies that belong
for good; what is too expensive is left out, not approximated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.league.matchmaking.population import Recruit
from ludus.league.payoffs.empirical_game import EmpiricalGame
from ludus.league.payoffs.normal_form import Array, checked
from ludus.league.ratings.elo import fit_elo, results_of_game

EXACT, BOUND = "psro/nash_conv", "psro/nash_conv_bound"
"""Metrics of exploitability: what it is, and what it is at least."""
Places = Sequence[Sequence[int]]
"""Of each player: places of policies in the table."""
MOST_STATES = 400
"""States of alpha-rank's chain up to which it takes less than a second."""
_FLOAT_TABLES = ("mean", "standard_error", "half_width")


@dataclass(frozen=True, slots=True, kw_only=True)
class PopulationRow:
    """One policy in one population."""

    policy: str
    seat: int | None
    """Whose population it is in; None where all seats share one."""
    generation: int
    """In which it came; 0 for who was there from the beginning."""
    frozen: bool = True
    """Whether it belongs for good; else it is a learner as it is now, or was in passing."""
    steps: int = 0
    share: float | None = None
    """In the newest meta-strategy."""
    payoff: float | None = None
    """What it gets on average while the others play the meta-strategy."""
    alpha_rank: float | None = None
    elo: float | None = None
    elo_error: float | None = None
    mu: float | None = None
    sigma: float | None = None
    games: int = 0
    wins: int = 0
    draws: int = 0
    losses: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PairPayoffs:
    """What a row's policy gets against a column's: seat 0 against seat 1, or any two of one population. `[r, c]`."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    mean: Array
    """NaN where nothing is known."""
    standard_error: Array
    half_width: Array
    """Half of a 95 % interval; infinite where a pair never met, 0 where the mean is exact."""
    games: NDArray[np.int64]
    exact: NDArray[np.bool_]

    def of(self, rows: Sequence[int], columns: Sequence[int]) -> PairPayoffs:
        """Some of the policies only."""
        block = np.ix_(rows, columns)
        tables = {name: getattr(self, name)[block] for name in (*_FLOAT_TABLES, "games", "exact")}
        names = [tuple(self.rows[place] for place in rows), tuple(self.columns[place] for place in columns)]
        return PairPayoffs(rows=names[0], columns=names[1], **tables)

    def to_json(self) -> dict[str, Any]:
        """Plain values; null where nothing is known."""
        numbers = {name: with_nulls(getattr(self, name)) for name in _FLOAT_TABLES}
        return {
            "rows": list(self.rows),
            "columns": list(self.columns),
            **numbers,
            "games": self.games.tolist(),
            "exact": self.exact.tolist(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """The meta-strategy after a generation: of each population, the policies that are played."""

    generation: int
    populations: tuple[Mapping[str, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploitability:
    """How far the meta-strategy was from an equilibrium, by generation."""

    metric: str
    generations: tuple[int, ...]
    values: tuple[float, ...]

    @property
    def label(self) -> str:
        """Its name for people, which says what it is worth."""
        return "NashConv (exact)" if self.metric == EXACT else "NashConv (lower bound)"


@dataclass(frozen=True, slots=True, kw_only=True)
class PopulationStanding:
    """A population at one moment."""

    generation: int
    players: int
    populations: tuple[tuple[str, ...], ...]
    """Policies by seat in the order they joined; one list where all seats share it."""
    rows: tuple[PopulationRow, ...]
    """Best first."""
    payoffs: PairPayoffs | None
    """None with more than two players, where pairs make no table."""
    values: tuple[float, ...]
    """What each player can expect when all play the meta-strategy."""
    history: tuple[Shares, ...]
    """Of the generations of which it is known, oldest first; the last is the newest."""
    exploitability: Exploitability
    agents: tuple[str, ...] = ()
    lineage: tuple[Recruit, ...] = ()
    """Everybody who came out of learning, oldest first; empty where policies are computed."""
    relative_performance: float | None = None
    """What those of the second half of the generations get against those of the first, both at their best."""

    @property
    def shared(self) -> bool:
        """Whether one population serves all seats."""
        return len(self.populations) == 1

    @property
    def is_rated(self) -> bool:
        """Whether matches were played that say who is how good."""
        return any(row.elo is not None for row in self.rows)

    def share(self, population: int, policy: str) -> float:
        """How often a policy of a population is played now."""
        return self.history[-1].populations[population].get(policy, 0.0) if self.history else 0.0

    def most_played(self, population: int, count: int) -> list[int]:
        """Places of the policies with the largest shares, and of the newest of those with none, in joining order."""
        names = self.populations[population]
        order = sorted(range(len(names)), key=lambda place: (-self.share(population, names[place]), -place))
        return sorted(order[:count])

    def most_telling_payoffs(self, count: int) -> PairPayoffs | None:
        """Payoffs of at most so many policies of each side."""
        if self.payoffs is None:
            return None
        return self.payoffs.of(self.most_played(0, count), self.most_played(len(self.populations) - 1, count))

    def to_json(self) -> dict[str, Any]:
        """Plain values; null where something is not known."""
        return {
            "generation": self.generation,
            "players": self.players,
            "shared": self.shared,
            "values": list(self.values),
            "exploitability": asdict(self.exploitability),
            "ladder": [asdict(row) for row in self.rows],
            "seats": [
                {"policies": list(names), "weights": [self.share(place, name) for name in names]}
                for place, names in enumerate(self.populations)
            ],
            "payoffs": None if self.payoffs is None else self.payoffs.to_json(),
            "meta_strategies": [
                {"generation": each.generation, "shares": [dict(shares) for shares in each.populations]}
                for each in self.history
            ],
            "lineage": [recruit.to_json() for recruit in self.lineage],
            "relative_performance": self.relative_performance,
        }


def with_nulls(matrix: Array) -> list[list[float | None]]:
    """A matrix for JSON, in which what is not finite is null."""
    return [[float(value) if np.isfinite(value) else None for value in row] for row in matrix]


def payoffs_against(table: Array, joint: Array, player: int) -> Array:
    """What each policy of a player gets while the others play the joint distribution; NaN if nothing is known of it.

    Profiles that were never played are left out, and the others count for more. `[a_k]`
    """
    values = np.moveaxis(table[player], player, 0)
    weights = np.broadcast_to(joint.sum(axis=player), values.shape)
    known = np.where(np.isnan(values), 0.0, weights).reshape(len(values), -1).sum(axis=1)
    total = (np.nan_to_num(values) * weights).reshape(len(values), -1).sum(axis=1)
    return np.where(known > 0, total / np.where(known > 0, known, 1.0), np.nan)


def alpha_rank_masses(table: Array, places: Places, *, shared: bool) -> list[dict[int, float]]:
    """Of each population: the mass of each of these policies by its place; empty where it would take long."""
    players = len(table)
    sizes = [len(each) for each in places]
    states = sizes[0] if shared and players == 2 else prod(sizes)
    populations = 1 if shared else players
    if states > MOST_STATES or 0 in sizes:
        return [{} for _ in range(populations)]
    from ludus.league.solvers import solve  # here, for it imports SciPy

    part = checked(table)[np.ix_(range(players), *places)]
    masses = solve("alpha_rank", part, symmetric=shared)
    return [dict(zip(places[k], masses[k].tolist(), strict=True)) for k in range(populations)]


def elo_by_population(game: EmpiricalGame) -> list[dict[int, tuple[float, float]]]:
    """Of each population: rating and standard error by place, of those who have met somebody; of two players only."""
    populations = 1 if game.symmetric else game.players
    if game.players != 2 or not game.games().any():
        return [{} for _ in range(populations)]
    wins, draws = results_of_game(game)
    fitted, met = fit_elo(wins, draws), (wins + wins.T + draws).sum(axis=1) > 0
    rated = {
        place: (float(fitted.ratings[place]), float(fitted.errors[place])) for place in np.flatnonzero(met).tolist()
    }
    first = len(met) if game.symmetric else game.populations.shape[0]
    parts: list[dict[int, tuple[float, float]]] = [{} for _ in range(populations)]
    for place, rating in rated.items():
        parts[place >= first][place - first * (place >= first)] = rating
    return parts


def progress_of_halves(matrix: Array, joined: Mapping[int, int]) -> float | None:
    """Relative performance of the second half of the generations over the first, in one zero-sum population.

    Args:
        matrix: what rows get against columns, `[n, n]`.
        joined: generation by place, of those who count.
    """
    newest = max(joined.values(), default=0)
    late = [place for place, generation in joined.items() if 2 * generation > newest]
    early = [place for place in joined if place not in late]
    if not late or not early:
        return None
    from ludus.league.solvers import relative_population_performance  # here, for it imports SciPy

    return relative_population_performance(matrix[np.ix_(late, early)])


def ordered(rows: Iterable[PopulationRow]) -> tuple[PopulationRow, ...]:
    """Best first: by Elo, else TrueSkill; those without by share and by payoff; members before who is in passing."""
    return tuple(sorted(rows, key=_merit))


def known(value: float) -> float | None:
    """A number, or None for what is not one."""
    return float(value) if isfinite(value) else None


def _merit(row: PopulationRow) -> tuple[float, ...]:
    elo, rating, payoff = (-np.inf if value is None else value for value in (row.elo, row.mu, row.payoff))
    return (-elo, -rating, -(row.share or 0.0), not row.frozen, -payoff, row.generation)
