"""Batches of tasks that are issued and not trained on yet, oldest first: what explorers play while the trainer works.

Invariant: who sits where is decided once, when a batch is issued, and stays so however often the run is killed: a
checkpoint holds the line-ups of the tasks that were issued before it and not played yet. Everything else about a task
can be made again from its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ludus.records import PolicyRef, Seat, TaskId

if TYPE_CHECKING:
    from ludus.sources.done_tasks import DoneTasks

Lineup = tuple[Seat, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedBatch:
    """Tasks `[first, end)`, to be trained on together."""

    first: int
    end: int
    published: int
    """Updates that were done when the version it is played with was published."""
    lineups: Mapping[TaskId, Lineup]
    """Who sits where, by task; tasks that are played may be missing."""


def policies_named(state: Iterable[Mapping[str, Any]]) -> set[PolicyRef]:
    """Every policy that a saved queue needs when its tasks are played."""
    return {PolicyRef.parse(name) for row in state for lineup in row["lineups"] for name, _, _ in lineup}


def to_json(batch: IssuedBatch, done: DoneTasks) -> dict[str, Any]:
    """For the checkpoint: what is not `done`, and must be played. Each line-up is written once."""
    waiting = {task: lineup for task, lineup in batch.lineups.items() if task not in done}
    distinct = list(dict.fromkeys(waiting.values()))
    places = {lineup: place for place, lineup in enumerate(distinct)}
    return {
        "first": batch.first,
        "end": batch.end,
        "published": batch.published,
        "lineups": [[[str(seat.policy), seat.learns, seat.greedy] for seat in lineup] for lineup in distinct],
        "tasks": [[task, places[lineup]] for task, lineup in waiting.items()],
    }


def from_json(row: Mapping[str, Any]) -> IssuedBatch:
    """The batch that `to_json` was given, less what was done."""
    distinct = [
        tuple(Seat(policy=PolicyRef.parse(name), learns=learns, greedy=greedy) for name, learns, greedy in lineup)
        for lineup in row["lineups"]
    ]
    return IssuedBatch(
        first=int(row["first"]),
        end=int(row["end"]),
        published=int(row["published"]),
        lineups={TaskId(task): distinct[place] for task, place in row["tasks"]},
    )
