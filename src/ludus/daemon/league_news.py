"""The league of a run as messages: its standing whenever it has changed, and the games in between, by pair."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np

from ludus.config import RunConfig
from ludus.daemon.messages import LeagueMember, LeagueNews, MatchNews, Payload
from ludus.errors import LudusError
from ludus.reports.ladder import standing_of_run
from ludus.storage.catalog import Catalog
from ludus.storage.run_directory import RunDirectory

MOST_MEMBERS = 40
"""In a message; of more, the best and the fixed players."""


class LeagueWatch:
    """Reads the standing again when the run has saved something since the last time."""

    def __init__(self, run: RunDirectory, config: RunConfig) -> None:
        self._run, self._config = run, config
        self._saved: object = None
        self._last: LeagueNews | None = None

    def poll(self) -> list[Payload]:
        """The standing and the games since the last one, if it has changed."""
        try:
            saved = self._newest_save()
            if saved is None or saved == self._saved:
                return []
            self._saved = saved
            news = self._read()
        except (OSError, LudusError, KeyError, ValueError):  # not there yet, or just being changed
            return []
        if news is None or news == self._last or not (news.members or news.names):
            return []
        matches = [] if self._last is None else played_since(self._last, news)
        self._last = news
        return [*matches, news]

    def _newest_save(self) -> object:
        if not self._run.catalog.is_file():
            return None
        with Catalog.open_readonly(self._run.catalog) as catalog:
            rows = catalog.query('SELECT "update", sha256 FROM checkpoints ORDER BY "update" DESC LIMIT 1')
        return tuple(rows[0]) if rows else None

    def _read(self) -> LeagueNews | None:
        if self._config.population is not None:
            return self._read_population()
        with Catalog.open_readonly(self._run.catalog) as catalog:
            standing = standing_of_run(catalog)
        payoffs = standing.most_telling_payoffs(MOST_MEMBERS)
        rows = [row for row in standing.rows if row.rank is not None]
        return LeagueNews(
            members=_members(rows),
            names=payoffs.policies,
            counts=tuple(tuple(row) for row in payoffs.games.tolist()),
            scores=_with_nulls(payoffs.score),
        )

    def _read_population(self) -> LeagueNews | None:
        from ludus.runs.population.standing import standing_of_population

        standing = standing_of_population(self._run, self._config)
        rows = [row for row in standing.rows if row.mu is not None and row.sigma is not None]
        pairs, found = standing.payoffs, standing.exploitability
        if pairs is not None and pairs.rows == pairs.columns:
            places = list(range(len(pairs.rows)))[-MOST_MEMBERS:]
            pairs = pairs.of(places, places)
        else:
            pairs = None
        return LeagueNews(
            members=_members(rows),
            names=() if pairs is None else pairs.rows,
            counts=() if pairs is None else tuple(tuple(row) for row in pairs.games.tolist()),
            scores=() if pairs is None else _with_nulls(pairs.mean),
            exploitability=found.values[-1] if found.values else None,
            exploitability_kind=found.label if found.values else "",
        )


def played_since(before: LeagueNews, after: LeagueNews) -> list[MatchNews]:
    """Games of each pair that are in one standing and not in the other; each pair once."""
    known = {
        (first, second): (before.counts[i][j], before.scores[i][j] or 0.0)
        for i, first in enumerate(before.names)
        for j, second in enumerate(before.names)
    }
    news = []
    for i, first in enumerate(after.names):
        for j, second in enumerate(after.names[:i]):
            games, score = after.counts[i][j], after.scores[i][j] or 0.0
            old_games, old_score = known.get((first, second), (0, 0.0))
            if games > old_games:
                share = (games * score - old_games * old_score) / (games - old_games)
                news.append(MatchNews(first=first, second=second, games=games - old_games, score=share))
    return news


def _members(rows: Sequence[Any]) -> tuple[LeagueMember, ...]:
    ordered = sorted(rows, key=lambda row: -row.mu)[:MOST_MEMBERS]
    return tuple(LeagueMember(name=row.policy, mu=row.mu, sigma=row.sigma, games=row.games) for row in ordered)


def _with_nulls(table: np.ndarray[Any, Any]) -> tuple[tuple[float | None, ...], ...]:
    return tuple(tuple(value if isfinite(value) else None for value in row) for row in table.tolist())
