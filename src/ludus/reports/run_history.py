"""What happened in a run, in order, without reading its files line by line: lists of hundreds of runs wait for this.

Invariant: it tells the same as all lines of both files would to whoever looks for turns, evaluations and the time that
passed: events that are turns or measurements, the metric lines with evaluations in them, and of all others the first,
the last, and the last before each turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from math import isfinite
from pathlib import Path
from typing import Any

from ludus.storage.jsonl import parse_line, rotated
from ludus.storage.run_directory import RunDirectory

TURNS = ("opened", "started", "ended", "failed")
"""Events with which a start of a run begins or ends."""
MOST_BYTES = 80_000_000
"""Of one file of metrics, the newest are looked at."""
MOST_BAD_LINES = 100
"""In a row that are passed over in search of a sound one."""
_EVENTS = (*(f'"{turn}"'.encode() for turn in TURNS), b'"measured"')
_EVALUATIONS = (b'"evaluate/', b'"psro/')
"""What stands in lines that count."""
Record = dict[str, Any]


def read_history(run: RunDirectory) -> Iterator[Record]:
    """Turns, evaluations, and what tells how the time passed, by time."""
    events = [event for part in (rotated(run.events), run.events) for event in _events_that_count(_read_end(part))]
    turns = [time_of(event) for event in events if event.get("event") in TURNS]
    parts = (rotated(run.metrics), run.metrics)
    return merge(events, [line for part in parts for line in _lines_that_count(_read_end(part), turns)], key=time_of)


def time_of(record: Record) -> float:
    """When it was written; 0 where that is not known."""
    at = record.get("time")
    return float(at) if isinstance(at, int | float) and isfinite(at) else 0.0


def _events_that_count(text: bytes) -> Iterator[Record]:
    marked = {place for mark in _EVENTS for place in _begins_with(text, mark)}
    return _records(text, marked | _ends(text) | {_readable(text, place - 1) for place in marked})


def _lines_that_count(text: bytes, turns: Sequence[float]) -> Iterator[Record]:
    marked = {place for mark in _EVALUATIONS for place in _begins_with(text, mark)}
    return _records(text, marked | _ends(text) | {_readable(text, _end_before(text, turn) - 1) for turn in turns})


def _ends(text: bytes) -> set[int | None]:
    """Where the first and the last line begin."""
    return {_readable(text, 0, step=1), _readable(text, len(text) - 1)}


def _records(text: bytes, places: Iterable[int | None]) -> Iterator[Record]:
    for begin in sorted(place for place in places if place is not None):
        if (record := _record_at(text, begin)) is not None:
            yield record


def _read_end(path: Path) -> bytes:
    """Whole lines at the end of a file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - MOST_BYTES))
            text = file.read(MOST_BYTES)
    except FileNotFoundError:
        return b""
    first = text.find(b"\n") + 1 if size > MOST_BYTES else 0
    return text[first : text.rfind(b"\n") + 1]


def _begin_of(text: bytes, place: int) -> int:
    """Where the line begins that a byte is in."""
    return text.rfind(b"\n", 0, max(0, place)) + 1


def _begins_with(text: bytes, mark: bytes) -> Iterator[int]:
    """Where the lines begin that have a mark in them."""
    place = text.find(mark)
    while place >= 0:
        yield _begin_of(text, place)
        place = text.find(mark, text.find(b"\n", place))


def _end_before(text: bytes, at_s: float) -> int:
    """Where the last readable line ends that was written before a time, by halving."""
    low, high = 0, len(text)
    first, last = _readable(text, 0, step=1), _readable(text, high - 1)
    if first is None or time_of(_record_at(text, first) or {}) >= at_s:
        return 0
    if last is None or time_of(_record_at(text, last) or {}) < at_s:
        return high
    while low < high:
        begin = _begin_of(text, (low + high) // 2)
        known = _readable(text, begin)
        if known is None or known < low or time_of(_record_at(text, known) or {}) < at_s:
            low = text.find(b"\n", begin) + 1
        else:
            high = known
    return low


def _readable(text: bytes, place: int, step: int = -1) -> int | None:
    """Where the next line begins, from the one at a place on, that holds an object; None where none is near."""
    for _ in range(MOST_BAD_LINES):
        if not 0 <= place < len(text):
            return None
        begin = _begin_of(text, place)
        if _record_at(text, begin) is not None:
            return begin
        place = begin - 1 if step < 0 else text.find(b"\n", place) + 1
    return None


def _record_at(text: bytes, begin: int) -> Record | None:
    end = text.find(b"\n", begin) + 1
    return parse_line(text[begin:end]) if end else None
