"""What each room of the loop has done so far, and what waits in it: counted where it happens, read from any thread.

Invariant: counters only grow, and belong to one start of a run; whoever reads them twice knows the rates in between.
Adding costs a dictionary look-up, so that the hottest callers may count each batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

ROOMS: Mapping[str, str] = {
    "tasks": "tasks",
    "explore": "episodes",
    "experience": "sequences",
    "buffer": "sequences",
    "train": "updates",
    "policies": "versions",
    "league": "games",
    "storage": "checkpoints",
}
"""The rooms in the order in which data flows through them, each with what it counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill:
    """How full something is; without a capacity it has no bound of its own."""

    length: float
    capacity: float | None = None

    @property
    def share(self) -> float:
        """How full, from 0 to 1."""
        return self.length / self.capacity if self.capacity else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomReading:
    """One room at one moment."""

    count: int = 0
    dropped: int = 0
    busy_s: float | None = None
    """Seconds of work so far, of one worker on average; None where nobody measures it."""
    fills: Mapping[str, Fill] = field(default_factory=dict)


@dataclass(slots=True)
class _Room:
    count: int = 0
    dropped: int = 0
    busy_s: float | None = None
    since: float | None = None
    """When the work that goes on now began."""
    fills: dict[str, Callable[[], Fill]] = field(default_factory=dict)
    workers: Callable[[], Mapping[str, float]] | None = None
    """CPU seconds of the processes that do the room's work, as far as they are known."""
    cpu: dict[str, float] = field(default_factory=dict)
    """The same of all that ever were."""


class RoomMeters:
    """The meters of one start of a run."""

    def __init__(self) -> None:
        self._rooms = {name: _Room() for name in ROOMS}

    def add(self, room: str, count: int, *, dropped: int = 0) -> None:
        """A room has done so many of its units, and refused or lost some."""
        if (meter := self._rooms.get(room)) is not None:
            meter.count += count
            meter.dropped += dropped

    def set(self, room: str, *, dropped: int) -> None:
        """What a room has lost, where it keeps count of that itself."""
        if (meter := self._rooms.get(room)) is not None:
            meter.dropped = dropped

    def keep(self, *rooms: str) -> None:
        """The run has these rooms and no others."""
        self._rooms = {name: meter for name, meter in self._rooms.items() if name in rooms}

    @contextmanager
    def working(self, room: str) -> Iterator[None]:
        """While the block lasts, a room works; it shows as work from its beginning on. A block inside counts once."""
        meter = self._rooms.get(room) or _Room()
        if meter.since is not None:
            yield
            return
        meter.since = time.monotonic()
        try:
            yield
        finally:
            meter.busy_s = (meter.busy_s or 0.0) + time.monotonic() - meter.since
            meter.since = None

    def watch(self, room: str, name: str, read: Callable[[], Fill]) -> None:
        """How full something in a room is; `read` is called from another thread and must not wait."""
        if (meter := self._rooms.get(room)) is not None:
            meter.fills[name] = read

    def watch_workers(self, room: str, cpu_s: Callable[[], Mapping[str, float]]) -> None:
        """A room's work is done by processes; their CPU seconds, by name, tell how busy it is."""
        if (meter := self._rooms.get(room)) is not None:
            meter.workers = cpu_s

    def read(self) -> dict[str, RoomReading]:
        """All rooms as they are now. One thread at a time."""
        return {name: _reading(meter) for name, meter in self._rooms.items()}


def added_up(readings: Iterable[Mapping[str, RoomReading]]) -> dict[str, RoomReading]:
    """The rooms of several runs that go on at once, as those of one; of what fills, the fullest is shown. Work adds up,
    so that two learners that are always busy work two seconds a second."""
    rooms: dict[str, list[RoomReading]] = {name: [] for name in ROOMS}
    for reading in readings:
        for name, room in reading.items():
            rooms[name].append(room)
    return {name: _added_up(of) for name, of in rooms.items()}


def _added_up(readings: list[RoomReading]) -> RoomReading:
    busy = [reading.busy_s for reading in readings if reading.busy_s is not None]
    fills: dict[str, Fill] = {}
    for name, fill in (item for reading in readings for item in reading.fills.items()):
        if name not in fills or fill.share > fills[name].share:
            fills[name] = fill
    return RoomReading(
        count=sum(reading.count for reading in readings),
        dropped=sum(reading.dropped for reading in readings),
        busy_s=sum(busy) if busy else None,
        fills=fills,
    )


def _reading(meter: _Room) -> RoomReading:
    if meter.workers is not None:
        meter.busy_s = _cpu_of(meter)
    busy_s, since = meter.busy_s, meter.since
    if since is not None:
        busy_s = (busy_s or 0.0) + time.monotonic() - since
    fills = {}
    for name, read in list(meter.fills.items()):
        try:
            fills[name] = read()
        except (RuntimeError, KeyError, ValueError):  # it changed while it was looked at; next time, then
            continue
    return RoomReading(count=meter.count, dropped=meter.dropped, busy_s=busy_s, fills=fills)


def _cpu_of(meter: _Room) -> float | None:
    """CPU seconds of all workers that ever were, by the number of those there are."""
    try:
        now = meter.workers() if meter.workers is not None else {}
    except (RuntimeError, KeyError):
        now = {}
    meter.cpu.update(now)
    return sum(meter.cpu.values()) / max(len(now), 1) if meter.cpu else None
