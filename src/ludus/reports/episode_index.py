"""The recorded episodes of a run, to be searched and paged through, beside a live run or after its end.

Of every segment only what a list shows is kept, for at most `MOST_KEPT` episodes; segments are immutable, so each is
read once. Invariant: nothing here raises for what a directory holds. Segments that are damaged, or gone meanwhile, are
passed over and named in `problems`; episodes beyond the bound are said to be left out.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from ludus.errors import CorruptRecord
from ludus.records import Episode, PolicyName, PolicyRef, PolicyVersion
from ludus.storage.arrow import episodes_from_table
from ludus.storage.segment_file import open_segment, segment_name, segment_starts

MOST_KEPT = 200_000
MOST_PAGE = 500
MOST_PROBLEMS = 20
Result = Literal["won", "drawn", "lost", "failed", "cut"]
"""Of the seat that was asked for, or of the first one; `cut`: a limit ended it."""
_COLUMNS = ("id", "task", "attempt", "purpose", "game", "group", "policies", "versions", "learns", "returns", "length")
_MORE = ("truncated", "error", "duration_s", "inputs")
_ROW = re.compile(r'"row": (\d{1,12})[,}]')


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRow:
    """One episode in a list."""

    id: str
    task: int
    attempt: int
    purpose: str
    game: str
    group: str
    seats: tuple[str, ...]
    """Who sat there: `main@3`, `random`."""
    learns: tuple[bool, ...]
    returns: tuple[float, ...]
    length: int
    truncated: bool
    error: str
    duration_s: float
    sampled: int
    row: int | None = None
    """Of an attempt at a task: which row of its taskset."""

    def seat_of(self, policy: str) -> int | None:
        """The first seat of a policy, named with or without its version."""
        return next((place for place, name in enumerate(self.seats) if _is(name, policy)), None)

    def result(self, seat: int = 0) -> Result:
        """How it ended for a seat."""
        if self.error:
            return "failed"
        if self.truncated and len(set(self.returns)) < 2:
            return "cut"
        best, mine = max(self.returns), self.returns[seat]
        if len(self.returns) < 2:
            return "won" if mine > 0 else "lost"
        return "lost" if mine < best else "drawn" if self.returns.count(best) > 1 else "won"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeQuery:
    """What is looked for; what is empty or None does not matter."""

    policy: str = ""
    opponent: str = ""
    result: str = ""
    purpose: str = ""
    game: str = ""
    group: str = ""
    task: int | None = None
    row: int | None = None
    text: str = ""
    """The beginning of an id."""
    min_length: int | None = None
    max_length: int | None = None
    min_reward: float | None = None
    max_reward: float | None = None

    def takes(self, row: EpisodeRow) -> bool:
        """Whether an episode is what is looked for."""
        seat = row.seat_of(self.policy) if self.policy else 0
        if seat is None or (self.opponent and not self._is_opponent(row, seat)):
            return False
        reward = row.returns[seat] if seat < len(row.returns) else 0.0
        return (
            (not self.text or row.id.startswith(self.text))
            and self.purpose in ("", row.purpose)
            and self.game in ("", row.game)
            and self.group in ("", row.group)
            and self.task in (None, row.task)
            and self.row in (None, row.row)
            and _within(row.length, self.min_length, self.max_length)
            and _within(reward, self.min_reward, self.max_reward)
            and (not self.result or row.result(seat) == self.result)
        )

    def _is_opponent(self, row: EpisodeRow, seat: int) -> bool:
        return any(_is(name, self.opponent) for place, name in enumerate(row.seats) if place != seat or not self.policy)

    @property
    def is_everything(self) -> bool:
        """Whether it takes every episode."""
        return all(getattr(self, field.name) == field.default for field in fields(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodePage:
    """A part of what was found, newest first."""

    rows: tuple[EpisodeRow, ...]
    found: int
    """How many there are in all,"""
    recorded: int
    """of how many that were looked at."""
    left_out: bool
    """Whether there are older episodes that were not looked at."""
    problems: tuple[str, ...]


class EpisodeIndex:
    """The episodes of one run. Any thread."""

    def __init__(self, run_dir: Path) -> None:
        self._folder = run_dir / "episodes"
        self._segments: dict[int, tuple[EpisodeRow, ...]] = {}
        self._damaged: dict[int, str] = {}
        self._lock = threading.Lock()

    def search(self, query: EpisodeQuery, *, offset: int = 0, limit: int = 100) -> EpisodePage:
        """What is found from `offset` on."""
        whole, left_out, problems = self._known()
        found = whole if query.is_everything else [row for row in whole if query.takes(row)]
        page = tuple(found[max(0, offset) : max(0, offset) + min(max(1, limit), MOST_PAGE)])
        return EpisodePage(rows=page, found=len(found), recorded=len(whole), left_out=left_out, problems=problems)

    def rows(self) -> list[EpisodeRow]:
        """All that are kept, newest first."""
        return self._known()[0]

    def _known(self) -> tuple[list[EpisodeRow], bool, tuple[str, ...]]:
        """The rows, whether older ones are left out, and what could not be read."""
        with self._lock:
            left_out = self._refresh()
            whole = [row for start in sorted(self._segments, reverse=True) for row in reversed(self._segments[start])]
            return whole, left_out, tuple(list(self._damaged.values())[-MOST_PROBLEMS:])

    def find(self, id: str) -> Episode | None:
        """A whole episode by its id; None where there is none any more."""
        with self._lock:
            self._refresh()
            places = [
                (start, place)
                for start, rows in self._segments.items()
                for place, row in enumerate(rows)
                if row.id == id
            ]
        return next((episode for episode in (self._read(*place) for place in places) if episode is not None), None)

    def episodes(self, query: EpisodeQuery, *, most: int) -> Iterator[Episode]:
        """Whole episodes that are found, newest first, segment by segment."""
        with self._lock:
            self._refresh()
            segments = sorted(self._segments.items(), reverse=True)
        for start, rows in segments:
            for place in reversed([place for place, row in enumerate(rows) if query.takes(row)]):
                if most <= 0:
                    return
                if (episode := self._read(start, place)) is not None:
                    most -= 1
                    yield episode

    def _read(self, start: int, place: int) -> Episode | None:
        try:
            _, batch = open_segment(self._folder / segment_name(start), log="episodes")
            return episodes_from_table(pa.Table.from_batches([batch.slice(place, 1)]))[0]
        except (CorruptRecord, ValueError):
            return None

    def _refresh(self) -> bool:
        """Read what is new, newest first; returns whether older segments are left out."""
        starts = segment_starts(self._folder)
        there = set(starts)
        self._segments = {start: rows for start, rows in self._segments.items() if start in there}
        self._damaged = {start: problem for start, problem in self._damaged.items() if start in there}
        kept = 0
        for start in reversed(starts):
            if start not in self._segments and start not in self._damaged:
                self._load(start)
            kept += len(self._segments.get(start, ()))
            if kept >= MOST_KEPT:
                for older in [each for each in self._segments if each < start]:
                    del self._segments[older]
                return start != starts[0]
        return False

    def _load(self, start: int) -> None:
        try:
            _, batch = open_segment(self._folder / segment_name(start), log="episodes")
            self._segments[start] = tuple(_rows(pa.Table.from_batches([batch])))
        except (CorruptRecord, KeyError, ValueError) as error:
            self._damaged[start] = str(error)


def _rows(table: pa.Table) -> Iterator[EpisodeRow]:
    columns: dict[str, list[Any]] = {name: table.column(name).to_pylist() for name in (*_COLUMNS, *_MORE)}
    known = "sampled" in table.column_names  # tables of earlier versions lack it
    columns["sampled"] = table.column("sampled").to_pylist() if known else [0] * table.num_rows
    names: dict[tuple[str, int], str] = {}
    for place in range(table.num_rows):
        row = {name: column[place] for name, column in columns.items()}
        seats = zip(row.pop("policies"), row.pop("versions"), strict=True)
        labels = tuple(names.setdefault(seat, _label(*seat)) for seat in seats)
        learns, returns = tuple(row.pop("learns")), tuple(row.pop("returns"))
        found = _ROW.search(row.pop("inputs"))
        yield EpisodeRow(seats=labels, learns=learns, returns=returns, row=int(found[1]) if found else None, **row)


def _label(name: str, version: int) -> str:
    return str(PolicyRef(name=PolicyName(name), version=PolicyVersion(version)))


def _is(seat: str, wanted: str) -> bool:
    return seat == wanted or seat.partition("@")[0] == wanted


def _within(value: float, least: float | None, most: float | None) -> bool:
    return (least is None or value >= least) and (most is None or value <= most)
