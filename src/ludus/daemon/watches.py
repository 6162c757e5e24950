"""The newest episode and the league of a run as messages, whenever they have changed."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ludus.config import RunConfig
from ludus.daemon.messages import EpisodeNews, LeagueMember, LeagueNews, MatchNews, Payload
from ludus.errors import LudusError
from ludus.records import Episode
from ludus.reports.ladder import standing_of_run
from ludus.storage.arrow import episodes_from_table
from ludus.storage.catalog import Catalog
from ludus.storage.run_directory import RunDirectory
from ludus.storage.segment_reader import SegmentReader

MOST_LINES = 400
MOST_CHARACTERS = 400
"""Of a line."""


class EpisodeWatch:
    """Looks for segments that were not there before; reads only the last row of the newest."""

    def __init__(self, episodes: Path) -> None:
        self._folder = episodes
        self._reader: SegmentReader | None = None
        self._seen = -1

    def poll(self) -> EpisodeNews | None:
        """The newest episode, if there is a newer one than last time."""
        try:
            episode = self._newest()
        except (OSError, LudusError):  # trimmed or damaged in the meantime; there will be others
            return None
        return None if episode is None else episode_news(episode)

    def _newest(self) -> Episode | None:
        if self._reader is None:
            self._reader = SegmentReader(self._folder, most_open=1)
        else:
            self._reader.refresh()
        starts = self._reader.starts()
        if not starts or starts[-1] <= self._seen:
            return None
        segment, batch = self._reader.segment(starts[-1])
        self._seen = segment.first_seq
        rows = pa.Table.from_batches([batch])
        return episodes_from_table(rows.slice(rows.num_rows - 1, 1))[0] if rows.num_rows else None


def episode_news(episode: Episode) -> EpisodeNews:
    """An episode as people read it; one whose game is not at hand is shown by its moves' numbers."""
    task = episode.task
    return EpisodeNews(
        episode=str(episode.id),
        game=task.game,
        task=int(task.id),
        purpose=task.purpose,
        seats=tuple(seat.label for seat in task.seats),
        rewards=tuple(float(value) for value in episode.returns),
        plies=episode.length,
        lines=_lines(episode),
        error=episode.error,
    )


def _lines(episode: Episode) -> tuple[str, ...]:
    from ludus.games.episode_text import episode_lines

    try:
        text = [line for part in episode_lines(episode) for line in part.splitlines()]
    except Exception as error:
        # A game of a plugin that is not loaded here, or one that has changed since: the moves are there all the same.
        turns = ", ".join(f"seat {seat}: {action}" for _, seat, action in episode.turns())
        text = [f"(cannot be shown as a board here: {error})", turns]
    if len(text) > MOST_LINES:
        left_out = len(text) - MOST_LINES
        text = [*text[: MOST_LINES // 2], f"... {left_out} lines left out ...", *text[-MOST_LINES // 2 :]]
    return tuple(line if len(line) <= MOST_CHARACTERS else f"{line[:MOST_CHARACTERS]}..." for line in text)


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
    """Rows come best first."""
    return tuple(
        LeagueMember(name=row.policy, mu=row.mu, sigma=row.sigma, games=row.games, elo=row.elo, elo_error=row.elo_error)
        for row in rows[:MOST_MEMBERS]
    )


def _with_nulls(table: np.ndarray[Any, Any]) -> tuple[tuple[float | None, ...], ...]:
    return tuple(tuple(value if isfinite(value) else None for value in row) for row in table.tolist())
