"""A run directory as a stream of notifications: what a daemon tells its clients, and what is told of a run that
nobody is alive in.

Invariant: nothing is written, locked or moved; a run that is being written to is read as it is at that moment.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from pydantic import ValidationError

from ludus.config import RunConfig, load_config
from ludus.daemon import messages
from ludus.daemon.reports import room_status
from ludus.daemon.watches import EpisodeWatch, LeagueWatch
from ludus.errors import ConfigError, StorageError
from ludus.reports.run_facts import read_progress, state_of, wall_seconds
from ludus.reports.run_history import TURNS
from ludus.storage.jsonl import rotated
from ludus.storage.lock import RunLock
from ludus.storage.run_directory import RunDirectory, find_run
from ludus.telemetry.room_meters import RoomReading, added_up

if TYPE_CHECKING:
    from ludus.runs.staged import AnyRun

MOST_BYTES = 4_000_000
"""Read at a time; when more has come, the oldest of it is passed over."""


class JsonlTail:
    """Objects that were not there the last time. Lines that are no objects are passed over."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._offset = 0
        self._rest = b""

    def read(self) -> list[dict[str, Any]]:
        """What has come since; the first time, everything that the file holds (at most `MOST_BYTES` of it)."""
        found: list[dict[str, Any]] = []
        try:
            here = os.stat(self._path)
        except OSError:
            return found
        if self._file is not None and here.st_ino != self._file:
            found += self._take(rotated(self._path))  # what came after the last look and before the rotation
            self._offset, self._rest = 0, b""
        self._file = here.st_ino
        if here.st_size < self._offset:
            self._offset, self._rest = 0, b""
        return found + self._take(self._path)

    def _take(self, path: Path) -> list[dict[str, Any]]:
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size - self._offset > MOST_BYTES:
                    self._offset, self._rest = size - MOST_BYTES, b""
                file.seek(self._offset)
                data = file.read(MOST_BYTES)
        except OSError:
            return []
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [record for line in lines if (record := _parse(line)) is not None]


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


TROUBLE = (
    "worker_lost",
    "worker_silent",
    "engine_lost",
    "episode_failed",
    "policy_damaged",
    "match_failed",
    "version_skipped",
    "sink_off",
    "loader_problem",
    "data_refused",
    "release_damaged",
)
"""Events that are warnings."""
COUNTED = {"explore": "episodes", "train": "update", "policies": "version"}
"""Rooms whose units a checkpoint counts."""
MOST_LINES = 2000
"""Metric lines and events of the past that are told when somebody begins to watch."""


class RunNews:
    """What happens in a run, from its files: metric lines, events, the newest episode, the league."""

    def __init__(self, run: RunDirectory, config: RunConfig, *, since: float = 0.0) -> None:
        """Of what happened before `since` (seconds of the epoch) nothing is told."""
        self.run, self.config = run, config
        self._since = since
        self._metrics, self._events = JsonlTail(run.metrics), JsonlTail(run.events)
        self._episodes = EpisodeWatch(run.episodes)
        self._league = LeagueWatch(run, config)
        self.latest: dict[str, float | None] = {}
        """The newest value of every metric."""
        self.generation = 0
        """Of a population: the newest that it has told of."""
        self.last_turn: dict[str, Any] = {}
        """The event with which the run last began or ended."""
        self.rooms: list[dict[str, Any]] = []
        """What its rooms did, for each start that has ended."""

    def poll(self, *, episodes: bool = True, league: bool = True) -> list[messages.Payload]:
        """What has happened since the last time."""
        return [*self.lines(), *self.pictures(episodes=episodes, league=league)]

    def pictures(self, *, episodes: bool = True, league: bool = True) -> Iterator[messages.Payload]:
        """The ladder, and the newest episode: to draw it the game has to be loaded."""
        yield from self._league.poll() if league else ()
        if episodes and (episode := self._episodes.poll()) is not None:
            yield episode

    def lines(self) -> Iterator[messages.Payload]:
        """Metric lines and events."""
        for record in self._new(self._metrics):
            values = {name: _number(value) for name, value in record.items() if name not in ("time", "step")}
            self.latest |= values
            if any(name.startswith("psro/") for name in values):
                self.generation = _whole(record.get("step"))
            yield messages.ProgressNews(step=_whole(record.get("step")), metrics=values)
        for record in self._new(self._events):
            if record.get("event") in TURNS:
                self.last_turn = record
            if record.get("event") == "rooms":
                self.rooms.append(record)
            else:
                yield event_news(record).dated(_number(record.get("time")))

    def _new(self, tail: JsonlTail) -> list[dict[str, Any]]:
        found = tail.read()[-MOST_LINES:]
        return [record for record in found if (_number(record.get("time")) or 0.0) >= self._since]


class RunWatch:
    """A run that is not told of by a daemon: everything comes from its directory, also its status."""

    def __init__(self, path: Path, *, pictures: bool = True) -> None:
        """`pictures`: also the ladder and the newest episode, for which the game is loaded."""
        self.path = path
        self._pictures = pictures
        self._news: RunNews | None = None

    def poll(self) -> Iterator[messages.Payload]:
        """What has happened since the last time, and how the run stands; call it about once a second.

        What is quick to tell comes first.

        Raises:
            StorageError: there is no run here.
        """
        run = find_run(self.path)
        if self._news is None or run.path != self._news.run.path:  # a run in stages goes on to the next
            self._news = self._open(run)
        yield from self._news.lines()
        yield self._status()
        if self._pictures:
            yield from self._news.pictures()

    def status(self) -> messages.Status:
        """How the run stands, as far as its files tell."""
        return next(each for each in self.poll() if isinstance(each, messages.Status))

    def _status(self) -> messages.Status:
        news = self._news
        if news is None:
            raise StorageError(f"{self.path} has not been looked at yet")
        config, progress = news.config, read_progress(news.run)
        stage, activity = _stage(news.run, progress, news.last_turn)
        is_population = config.population is not None
        return messages.Status(
            stage=stage,
            activity=activity,
            run=config.name,
            run_dir=str(self.path),
            update=_whole(progress.get("update")),
            steps=news.generation if is_population else _whole(progress.get("steps")),
            total_steps=(config.train.steps or 0) if config.population is None else config.population.stop.generations,
            unit="generations" if is_population else "steps",
            episodes=_whole(progress.get("episodes")),
            version=_whole(progress.get("version")),
            steps_per_s=news.latest.get("loop/steps_per_s") or 0.0 if stage == "TRAINING" else 0.0,
            uptime_s=wall_seconds(self.path),
            error=str(news.last_turn.get("error", "")) if stage == "ERROR" else "",
            schedule=recorded_schedule(news.rooms, progress),
            rooms=recorded_rooms(news.rooms, progress),
            loader=recorded_loader(news.rooms),
            metrics=dict(news.latest),
        )

    def _open(self, run: RunDirectory) -> RunNews:
        if not run.is_run():
            raise StorageError(f"{self.path} is not a run directory")
        try:
            return RunNews(run, load_config(run.config))
        except ConfigError as error:
            raise StorageError(f"{run.config} cannot be read: {error}") from error


def recorded_rooms(
    records: Sequence[Mapping[str, Any]], progress: Mapping[str, Any]
) -> tuple[messages.RoomStatus, ...]:
    """The rooms at rest, over all starts that have ended; of one that was killed, what its counters tell."""
    try:
        starts = [msgspec.convert(record.get("rooms"), dict[str, RoomReading]) for record in records]
    except msgspec.ValidationError:
        starts = []
    has = {name for start in starts for name in start}
    counts = {room: _whole(progress[name]) for room, name in COUNTED.items() if name in progress}
    uptime_s = sum(_number(record.get("uptime_s")) or 0.0 for record in records)
    return tuple(
        room_status(name, None, replace(now, count=max(now.count, counts.get(name, 0))), seconds=0.0, uptime_s=uptime_s)
        for name, now in added_up(starts).items()
        if name in has or name in counts
    )


def recorded_schedule(records: Sequence[Mapping[str, Any]], progress: Mapping[str, Any]) -> messages.Schedule:
    """The cycle as it was when the newest start ended."""
    recorded = records[-1].get("schedule") if records else None
    known = {"updates": _whole(progress.get("update")), **(recorded if isinstance(recorded, dict) else {})}
    try:
        return messages.Schedule.model_validate(known)
    except ValidationError:
        return messages.Schedule()


def recorded_loader(records: Sequence[Mapping[str, Any]]) -> messages.LoaderNews | None:
    """The loader as it was when the newest start ended."""
    recorded = records[-1].get("loader") if records else None
    try:
        return None if recorded is None else messages.LoaderNews.model_validate(recorded)
    except ValidationError:
        return None


def event_news(record: Mapping[str, Any]) -> messages.NewsPayload:
    """An event of `events.jsonl` as a notification."""
    kind = str(record.get("event", ""))
    fields = {name: value for name, value in record.items() if name not in ("time", "event", "run")}
    if kind == "published":
        return messages.PolicyPublished(
            policy=str(fields.get("policy", "")),
            step=_whole(fields.get("step")),
            weights_hash=str(fields.get("weights_hash", "")),
        )
    if kind == "exported":
        return messages.Exported(policy=str(fields.get("policy", "")), path=str(fields.get("path", "")))
    if kind == "failed":
        return messages.Failure(code="run_failed", message=str(fields.get("error", "")))
    if kind in TROUBLE:
        told = ", ".join(f"{name} {value}" for name, value in fields.items() if name != "log_tail")
        return messages.Warned(message=f"{kind.replace('_', ' ')}: {told}"[:2000])
    return messages.EventNews(event=kind, fields=fields)


def _stage(run: RunDirectory, progress: Mapping[str, Any], last: Mapping[str, Any]) -> tuple[messages.Activity, str]:
    holder = RunLock.holder(run.path)
    match state_of(holder, progress, last):
        case "running":
            return "TRAINING", f"process {holder and holder.get('pid')} is at work"
        case "failed":
            return "ERROR", "failed"
        case "finished":
            return "DONE", "finished"
        case "killed":
            return "STOPPED", "its process was killed"
    return "STOPPED", "nobody is at work"


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and isfinite(value) else None


def _whole(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and isfinite(value) else 0


class News:
    """Follows a loop from stage to stage. Belongs to one thread but for `newest`."""

    def __init__(self, loop: AnyRun) -> None:
        self._loop = loop
        self._reader: RunNews | None = None
        self._since = time.time()
        self._newest: dict[str, messages.Payload] = {}

    def poll(self, *, episodes: bool, league: bool) -> list[messages.Payload]:
        """What has happened since the last time; of the time before this process had the run, nothing."""
        run = self._loop.run
        if self._reader is None or run.path != self._reader.run.path:
            if not run.is_run():
                return []
            self._reader = RunNews(run, self._loop.config, since=self._since)
        news = self._reader.poll(episodes=episodes, league=league)
        self._newest |= {
            payload.type: payload for payload in news if isinstance(payload, messages.EpisodeNews | messages.LeagueNews)
        }
        return news

    def newest(self) -> Iterable[messages.Payload]:
        """What a new client is told first."""
        return list(self._newest.values())
