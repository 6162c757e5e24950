"""Who is how good in a population, by every measure that its payoffs allow: the rows of its ladder.

Imports SciPy. Invariant: measures are about those who belong for good; what is too expensive is left out, not
approximated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite, prod

import numpy as np

from ludus.league.payoffs.empirical_game import EmpiricalGame
from ludus.league.payoffs.normal_form import Array, checked
from ludus.league.ratings.elo import fit_elo, results_of_game
from ludus.league.solvers import relative_population_performance, solve
from ludus.reports.population_standing import PopulationRow

Places = Sequence[Sequence[int]]
"""Of each player: places of policies in the table."""
MOST_STATES = 400
"""States of alpha-rank's chain up to which it takes less than a second."""


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
    return relative_population_performance(matrix[np.ix_(late, early)])


def ordered(rows: Iterable[PopulationRow]) -> tuple[PopulationRow, ...]:
    """Best first: by TrueSkill, and those without by share and by payoff; members before who is there in passing."""
    return tuple(sorted(rows, key=_merit))


def known(value: float) -> float | None:
    """A number, or None for what is not one."""
    return float(value) if isfinite(value) else None


def _merit(row: PopulationRow) -> tuple[float, ...]:
    rating = -np.inf if row.mu is None else row.mu
    payoff = -np.inf if row.payoff is None else row.payoff
    return (-rating, -(row.share or 0.0), not row.frozen, -payoff, row.generation)
