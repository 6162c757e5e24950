"""The newest recorded episode of a run, for people to look at."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from ludus.daemon.messages import EpisodeNews
from ludus.errors import LudusError
from ludus.records import Episode
from ludus.storage.arrow import episodes_from_table
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
        seats=tuple(f"{seat.policy}{' (greedy)' if seat.greedy else ''}" for seat in task.seats),
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
