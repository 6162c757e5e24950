"""What the files of a run say about it: when it ran and for how long, how it ended, what was measured last.

Invariant: nothing is written or locked, and what counts is on disk: a checkpoint is listed when its folder is there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import Any

from ludus.config import RunConfig, load_config
from ludus.reports.curves import DEFAULT, headline, matches
from ludus.reports.run_history import TURNS, read_history
from ludus.storage.catalog import peek_cursor
from ludus.storage.jsonl import read_jsonl
from ludus.storage.lock import RunLock
from ludus.storage.run_directory import RunDirectory, StagedDirectory

DEEPEST = 4
"""Folders below the one that is searched for runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """One run, or a run in stages as a whole."""

    path: Path
    name: str
    state: str
    """running, finished, stopped, failed, or killed: the process ended without a word."""
    pid: int | None = None
    part: str = ""
    """Of a run in stages: the newest, such as `2/3 mix`."""
    began: float | None = None
    """When it was first started, in seconds of the epoch."""
    ended: float | None = None
    """The last sign of it."""
    wall_s: float = 0.0
    """Seconds that it ran, over all its starts."""
    starts: int = 0
    seed: int = 0
    steps: int = 0
    total_steps: int = 0
    """0 where the run's length is given in updates or hours alone."""
    unit: str = "steps"
    result: Mapping[str, float] = field(default_factory=dict)
    """The newest value of all that evaluations measure."""
    result_step: int = 0
    error: str = ""

    def result_text(self) -> str:
        """`mcts-25 78.0%  random 99.0%`; empty where nothing was measured."""
        return result_text(self.result)


def measured_text(metrics: Mapping[str, float | None]) -> str:
    """Of all metrics those that evaluations measure, without what their names share."""
    names = dict.fromkeys(headline(name, metrics) for name in metrics if matches(name, DEFAULT))
    return result_text({name: value for name in names if (value := metrics.get(name)) is not None})


def result_text(result: Mapping[str, float]) -> str:
    """Measures with their values, without what all names share."""
    return "  ".join(f"{_short(name)} {value_text(name, value)}" for name, value in result.items())


def _short(metric: str) -> str:
    path, _, figure = metric.removeprefix("evaluate/").removeprefix("psro/").rpartition("/")
    return path if path and figure in ("score", "success", "return") else "/".join(filter(None, (path, figure)))


def value_text(metric: str, value: float) -> str:
    """Shares as percentages, all else as it is."""
    return f"{value:.1%}" if metric.endswith(("/score", "/success", "invalid_moves")) else f"{value:.4g}"


def find_runs(folder: Path, depth: int = DEEPEST) -> Iterator[Path]:
    """Runs and runs in stages below a folder, or the folder itself; what lies in a run belongs to it."""
    if RunDirectory(folder).is_run() or StagedDirectory(folder).is_staged():
        yield folder
    elif depth > 0:
        try:
            children = sorted(child for child in folder.iterdir() if child.is_dir() and not child.is_symlink())
        except PermissionError:
            return
        for child in children:
            yield from find_runs(child, depth - 1)


def read_run_facts(path: Path, config: RunConfig | None = None) -> RunFacts:
    """What there is to say of the run at a path; `config` is the run's, where it has been read.

    Raises:
        LudusError: its config cannot be read.
    """
    staged = StagedDirectory(path)
    return _whole(staged, config) if staged.is_staged() else _single(RunDirectory(path), config)


def checkpoints_on_disk(run: RunDirectory) -> list[int]:
    """Updates whose checkpoint has its manifest."""
    return sorted(int(found.parent.name) for found in run.checkpoints.glob("[0-9]*/manifest.json"))


def read_progress(run: RunDirectory) -> dict[str, Any]:
    """The counters of the newest checkpoint, as the catalog has them; nothing where it cannot be read."""
    found = peek_cursor(run.catalog, "progress")
    return found if isinstance(found, dict) else {}


def state_of(holder: object, progress: Mapping[str, Any], last_turn: Mapping[str, Any]) -> str:
    """What became of a run: who holds its lock, its counters, and the event with which it last began or ended."""
    if holder is not None:
        return "running"
    turn = last_turn.get("event")
    if turn == "failed":
        return "failed"
    if progress.get("finished") or (turn == "ended" and not last_turn.get("stopped", True)):
        return "finished"
    return "killed" if turn in ("opened", "started") else "stopped"


class Clock:
    """Adds up the seconds of a run's starts from the times of its lines, oldest first."""

    def __init__(self) -> None:
        self.began: float | None = None
        self.last: float | None = None
        self.wall_s = 0.0
        self.starts = 0
        self._since: float | None = None
        """When the start that goes on began."""
        self._has_started = False

    def see(self, record: Mapping[str, Any]) -> None:
        """Take an event or a metric line."""
        at, kind = record.get("time"), record.get("event")
        if not isinstance(at, int | float) or not isfinite(at):
            return
        # Runs of before have no `opened`: their first line begins the first start, each further `started` another.
        is_again = kind == "started" and (self._since is None or self._has_started)
        if kind == "opened" or is_again or not self.starts:
            self.stop()
            self._since, self._has_started = at, False
            self.began = at if self.began is None else self.began
            self.starts += 1
        if self._since is not None:
            self.last = max(at, self._since)
            self._has_started = self._has_started or kind == "started"
            if kind in ("ended", "failed"):
                self.stop()

    def stop(self, now: float | None = None) -> None:
        """The start is over; with `now` it goes on still."""
        if self._since is not None and self.last is not None:
            self.wall_s += max(now or 0.0, self.last) - self._since
        self._since = None


def wall_seconds(path: Path) -> float:
    """Seconds that a run went on, over all its starts and stages, from its events alone."""
    staged = StagedDirectory(path)
    runs = [staged.stage(stage.folder) for stage in staged.read()] or [RunDirectory(path)]
    clocks = [Clock() for _ in runs]
    for run, clock in zip(runs, clocks, strict=True):
        for record in read_jsonl(run.events):
            clock.see(record)
        clock.stop(None if RunLock.holder(run.path) is None else time.time())
    return sum(clock.wall_s for clock in clocks)


def _single(run: RunDirectory, config: RunConfig | None = None) -> RunFacts:
    config, progress, clock = config or load_config(run.config), read_progress(run), Clock()
    result: dict[str, float] = {}
    last_turn: dict[str, Any] = {}
    result_step = generation = 0
    for record in read_history(run):
        clock.see(record)
        kind = record.get("event")
        if kind in TURNS:
            last_turn = record
        if kind not in (None, "measured"):
            continue
        values = dict(_values(record))
        shown = {headline(name, values) for name in values if matches(name, DEFAULT)}
        measured = {name: value for name, value in values.items() if name in shown}
        if measured:
            result |= measured
            result_step = int(record.get("step") or 0)
        if any(name.startswith("psro/") for name in record):
            generation = int(record.get("step") or 0)  # populations tell of themselves by generation
    holder = RunLock.holder(run.path)
    clock.stop(None if holder is None else time.time())
    population = config.population
    return RunFacts(
        path=run.path,
        name=config.name,
        state=state_of(holder, progress, last_turn),
        pid=None if holder is None else holder["pid"],
        began=clock.began,
        ended=clock.last,
        wall_s=clock.wall_s,
        starts=clock.starts,
        seed=config.seed,
        steps=int(progress.get("steps") or 0) if population is None else generation,
        total_steps=(config.train.steps or 0) if population is None else population.stop.generations,
        unit="steps" if population is None else "generations",
        result=result,
        result_step=result_step,
        error=str(last_turn.get("error", "")),
    )


def _whole(staged: StagedDirectory, config: RunConfig | None = None) -> RunFacts:
    """A run in stages: the newest of them, with the time of all."""
    begun, config = staged.read(), config or load_config(staged.config)
    found = [_single(staged.stage(stage.folder)) for stage in begun if staged.stage(stage.folder).is_run()]
    holder = RunLock.holder(staged.path)
    if not found:
        return RunFacts(path=staged.path, name=config.name, state=state_of(holder, {}, {}), seed=config.seed)
    newest, count = found[-1], len(config.stages)
    is_done = len(begun) == count and all(stage.is_done for stage in begun)
    left = "stopped" if newest.state == "finished" and not is_done else newest.state
    return replace(
        newest,
        path=staged.path,
        name=config.name,
        state="running" if holder is not None else left,
        pid=None if holder is None else holder["pid"],
        part=f"{len(found)}/{count} {config.stages[len(found) - 1].name}",
        began=found[0].began,
        wall_s=sum(each.wall_s for each in found),
        starts=sum(each.starts for each in found),
    )


def _values(record: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers of a metric line, or those that a version was measured with."""
    scores = record.get("scores") if record.get("event") == "measured" else record
    for name, value in scores.items() if isinstance(scores, Mapping) else ():
        if isinstance(value, int | float):
            yield name, float(value)
