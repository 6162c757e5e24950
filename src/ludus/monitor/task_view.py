"""The tasksets of a run: how often each task is solved, over the versions that attempted it, and what a curriculum
believes.

Counted from the episodes that the run still keeps, so older attempts may be missing; `recorded` says how many there
are. Invariant: an attempt that failed to run is no success and is counted as failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ludus.config import RunConfig
from ludus.errors import LudusError
from ludus.league.payoffs.cells import wilson_interval
from ludus.reports.episode_index import EpisodeIndex, EpisodeRow
from ludus.storage.checkpoints import newest_whole
from ludus.storage.run_directory import RunDirectory

BUCKETS = 24
MOST_TASKS = 2000
"""Tasks of one set that are listed, the least solved first."""
PREFIX = "tasks:"


@dataclass(slots=True)
class Attempts:
    """What came of some attempts."""

    count: int = 0
    solved: int = 0
    failed: int = 0
    reward: float = 0.0

    def add(self, row: EpisodeRow, success: float) -> None:
        """Count one."""
        self.count += 1
        if row.error:
            self.failed += 1
            return
        self.reward += row.returns[0]
        self.solved += row.returns[0] >= success

    def to_json(self) -> dict[str, Any]:
        """Plain values; null where nothing is known."""
        if not self.count:
            return {"attempts": 0, "solved": 0, "failed": 0, "rate": None, "interval": None, "reward": None}
        rate = self.solved / self.count
        return {
            "attempts": self.count,
            "solved": self.solved,
            "failed": self.failed,
            "rate": rate,
            "interval": wilson_interval(rate, self.count),
            "reward": self.reward / self.count,
        }


@dataclass(slots=True)
class TaskHistory:
    """One task."""

    total: Attempts = field(default_factory=Attempts)
    buckets: dict[int, Attempts] = field(default_factory=dict)
    newest: str = ""
    """An episode."""


def read_tasks(run: RunDirectory, config: RunConfig, index: EpisodeIndex) -> dict[str, Any]:
    """Every taskset that was attempted, training and held-out apart."""
    rows = [row for row in index.rows() if row.game.startswith(PREFIX) and row.row is not None]
    beliefs, problems = _beliefs(run)
    success = config.evaluate.success
    versions = [_version(row) for row in rows]
    first, last = min(versions, default=0), max(versions, default=0)
    width = max(1, -(-(last - first + 1) // BUCKETS))
    sets: dict[tuple[str, str], dict[int, TaskHistory]] = {}
    for row, version in zip(rows, versions, strict=True):
        histories = sets.setdefault((row.game.removeprefix(PREFIX), row.purpose), {})
        history = histories.setdefault(row.row or 0, TaskHistory())
        history.newest = history.newest or row.id
        history.total.add(row, success)
        history.buckets.setdefault((version - first) // width, Attempts()).add(row, success)
    return {
        "success": success,
        "recorded": len(rows),
        "versions": [first + width * bucket for bucket in range((last - first) // width + 1)] if rows else [],
        "width": width,
        "sets": [
            _view_set(name, purpose, histories, beliefs.get(name) if purpose == "train" else None)
            for (name, purpose), histories in sorted(sets.items())
        ],
        "problems": problems,
    }


def _view_set(
    name: str, purpose: str, histories: Mapping[int, TaskHistory], belief: Mapping[str, Any] | None
) -> dict[str, Any]:
    total, buckets = Attempts(), dict[int, Attempts]()
    for history in histories.values():
        _merge(total, history.total)
        for bucket, attempts in history.buckets.items():
            _merge(buckets.setdefault(bucket, Attempts()), attempts)
    ordered = sorted(histories.items(), key=lambda item: (item[1].total.solved / item[1].total.count, item[0]))
    believed = {} if belief is None else belief["rows_believed"]
    return {
        "name": name,
        "purpose": purpose,
        "rows": None if belief is None else belief["rows"],
        "weight": None if belief is None else belief["weight"],
        "tasks_attempted": len(histories),
        "never_solved": sum(not history.total.solved for history in histories.values()),
        **total.to_json(),
        "over_time": {bucket: attempts.to_json() for bucket, attempts in sorted(buckets.items())},
        "tasks": [
            {
                "row": row,
                "newest": history.newest,
                "believed": believed.get(row),
                **history.total.to_json(),
                "over_time": {bucket: each.to_json()["rate"] for bucket, each in sorted(history.buckets.items())},
            }
            for row, history in ordered[:MOST_TASKS]
        ],
    }


def _merge(into: Attempts, other: Attempts) -> None:
    into.count += other.count
    into.solved += other.solved
    into.failed += other.failed
    into.reward += other.reward


def _version(row: EpisodeRow) -> int:
    version = row.seats[0].rpartition("@")[2] if row.seats else ""
    return int(version) if version.isdigit() else 0


def _beliefs(run: RunDirectory) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """By taskset: its rows, its weight, and the rate of success that an adaptive order believes of each row."""
    try:
        state = newest_whole(run.checkpoints).state.get("tasks")
    except LudusError as error:
        return {}, [str(error)]
    found: dict[str, dict[str, Any]] = {}
    for part in _parts(state):
        try:
            for each in part["sets"]:
                order = part["orders"].get(each["name"], {})
                seen = {int(row): (1.0 + good) / (2.0 + good + bad) for row, good, bad, *_ in order.get("rows", ())}
                found[str(each["name"])] = {"rows": each["rows"], "weight": each["weight"], "rows_believed": seen}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            return found, [f"the saved state of the tasks cannot be read: {error!r}"]
    return found, []


def _parts(state: Any) -> list[dict[str, Any]]:
    """The states of tasksets, alone or beside games."""
    if not isinstance(state, dict):
        return []
    if "sets" in state:
        return [state]
    return [part for each in state.values() for part in _parts(each)]
