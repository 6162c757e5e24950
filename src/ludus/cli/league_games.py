"""`ludus league --play`: the games that make a league's table most certain, played here and recorded.

Only members that do not change play: versions whose weights are on disk, and fixed players. They play as in the run's
evaluations. Invariant: a game counts as soon as it is over; stopping the command loses the games in flight alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ludus.cli.match_games import Side, Table, evaluates_greedily, make_tasks, play_tasks, recorded_game
from ludus.errors import ConfigError
from ludus.league.matchmaking.match_planner import plan_rated_games, score_errors
from ludus.league.matchmaking.recorded import read_recorded, record_games
from ludus.league.payoffs.cells import Z95
from ludus.league.payoffs.normal_form import Array
from ludus.league.ratings.elo import EloRatings, fit_elo
from ludus.records import Episode, Task
from ludus.reports.ladder import Standing, standing_of_run
from ludus.storage.catalog import Catalog

MOST_NAMED = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Certainty:
    """How well the scores of all pairs are known."""

    pairs: int
    unmet: int
    """Pairs without a game."""
    margin: float
    """Half of a pair's 95 % interval, on average."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What came of it."""

    games: int
    failed: int
    pairs: int
    absent: tuple[str, ...]
    """Members that cannot play any more."""
    before: Certainty
    after: Certainty

    def notes(self, path: Path) -> list[str]:
        """For people."""
        lines = [
            f"played {self.games:,} games between {self.pairs:,} pairs; recorded in {path}",
            f"pairs that never met: {self.before.unmet:,} before, {self.after.unmet:,} now, of {self.after.pairs:,}; "
            f"a pair's score is known to ±{100 * self.before.margin:.0f} before, ±{100 * self.after.margin:.0f} points "
            f"now (95 %, on average)",
        ]
        if self.failed:
            lines.append(f"{self.failed:,} games failed and are not recorded")
        if self.absent:
            more = f" and {len(self.absent) - MOST_NAMED} more" if len(self.absent) > MOST_NAMED else ""
            lines.append(f"cannot play any more (not on disk): {', '.join(self.absent[:MOST_NAMED])}{more}")
        return lines

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


class Recorder:
    """Tells how many games are over as they end, and records them unless there is no path."""

    def __init__(
        self, path: Path | None, names: Callable[[Task], tuple[str, str]], tell: Callable[[int], None]
    ) -> None:
        self._path, self._names, self._tell = path, names, tell
        self.over, self.new = 0, 0

    def __call__(self, episodes: Sequence[Episode]) -> None:
        """Take the games that have just ended; those that failed are told of, not recorded."""
        sound = [recorded_game(each, *self._names(each.task)) for each in episodes if not each.error]
        self.new += record_games(self._path, sound) if sound and self._path is not None else 0
        self.over += len(episodes)
        self._tell(self.over)


def play_most_telling(table: Table, count: int, *, seed: int, tell: Callable[[int], None]) -> Played:
    """Plan, play and record so many games of a run.

    Raises:
        ConfigError: fewer than two members can play.
    """
    before = _standing(table)
    frozen = [row.policy for row in before.rows if row.kind != "learner"]
    sides = {key: side for key in frozen if (side := _find(table, key)) is not None}
    if len(sides) < 2:
        raise ConfigError(f"--play: {table.run.path} has fewer than two members that can play {table.key}")
    names = list(sides)
    fit, games = _of_members(before, names)
    planned = plan_rated_games(fit, games, count, block=table.spec.players)
    recorded = Counter(frozenset(seats) for _, seats, _ in read_recorded(table.run.recorded))
    tasks: list[Task] = []
    pairs: list[tuple[str, str]] = []
    for (one, other), number in planned.items():
        pair = names[one], names[other]
        both = sides[pair[0]], sides[pair[1]]
        greedy, begin = evaluates_greedily(table, both), recorded[frozenset(pair)]
        tasks += make_tasks(table, both, games=number, seed=seed, greedy=greedy, begin=begin, first_id=len(tasks))
        pairs += [pair] * number
    recorder = Recorder(table.run.recorded, lambda task: pairs[task.id], tell)
    playing = [side for key, side in sides.items() if any(key in pair for pair in pairs)]
    episodes = play_tasks(table, playing, tasks, recorder)
    return Played(
        games=recorder.new,
        failed=sum(bool(episode.error) for episode in episodes),
        pairs=len(planned),
        absent=tuple(key for key in frozen if key not in sides),
        before=_certainty(before, frozen),
        after=_certainty(_standing(table), frozen),
    )


def _standing(table: Table) -> Standing:
    with Catalog.open_readonly(table.run.catalog) as catalog:
        return standing_of_run(catalog)


def _find(table: Table, key: str) -> Side | None:
    try:
        return table.find(key)
    except ConfigError:  # a version that was pruned, or a player of a plugin that is not loaded
        return None


def _of_members(standing: Standing, names: Sequence[str]) -> tuple[EloRatings, Array]:
    """Ratings and games of these members; who has met nobody is anything."""
    rated = {policy: place for place, policy in enumerate(standing.payoffs.policies)}
    unknown = fit_elo(np.zeros((2, 2)))
    count = len(names)
    ratings, covariance, games = np.full(count, unknown.ratings[0]), np.zeros((count, count)), np.zeros((count, count))
    np.fill_diagonal(covariance, 2.0 * unknown.covariance[0, 0])
    known = [place for place, name in enumerate(names) if name in rated]
    places = [rated[names[place]] for place in known]
    ratings[known] = standing.fit.ratings[places]
    covariance[np.ix_(known, known)] = standing.fit.covariance[np.ix_(places, places)]
    games[np.ix_(known, known)] = standing.payoffs.games[np.ix_(places, places)]
    return EloRatings(ratings=ratings, covariance=covariance, pair_spread=standing.fit.pair_spread), games


def _certainty(standing: Standing, names: Sequence[str]) -> Certainty:
    fit, games = _of_members(standing, names)
    upper = np.triu_indices(len(names), k=1)
    margin = float(Z95 * score_errors(fit, games)[upper].mean())
    return Certainty(pairs=len(upper[0]), unmet=int((games[upper] == 0).sum()), margin=margin)
