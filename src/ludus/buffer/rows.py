"""What the buffer knows of a row without its contents: whose it is, how old, and how surprising its reward was."""

from __future__ import annotations

from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ludus.records import Experiences
from ludus.storage.arrow import experiences_from_table

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_READ = ("task", "attempt", "seat", "turn", "group", "shaped_reward", "own_version", "mask", "version")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFacts:
    """Parallel columns, `[n]`, in the order of the sequence numbers."""

    seq: Integers
    task: Integers
    attempt: Integers
    seat: Integers
    """The place in the episode: the seat, and the turn where rows are turns."""
    version: Integers
    """Version of the row's oldest element that a policy chose; -1 where that is not this run's policy."""
    group: Integers
    """Equal for rows of one group; 0 for a row without one."""
    surprise: Floats
    """How far the row's reward is from the mean of its group; 1 for a row without one."""

    def take(self, rows: Integers, *, first_seq: int) -> RowFacts:
        """Some rows, numbered anew from `first_seq` on."""
        columns = {field.name: getattr(self, field.name)[rows] for field in fields(self)}
        return RowFacts(**{**columns, "seq": first_seq + np.arange(len(rows))})

    def where(self, wanted: NDArray[np.bool_]) -> RowFacts:
        """The rows of a mask `[n]`."""
        return RowFacts(**{field.name: getattr(self, field.name)[wanted] for field in fields(self)})


def facts_of(experiences: Experiences, first_seq: int = 0) -> RowFacts:
    """The facts of rows that are numbered from `first_seq` on. A group is among them whole, or it is a smaller one."""
    columns = experiences.sequences
    group = group_numbers(columns["group"].tolist()) if "group" in columns else np.zeros(len(experiences), np.int64)
    return RowFacts(
        seq=first_seq + np.arange(len(experiences)),
        task=np.asarray(columns["task"], np.int64),
        attempt=np.asarray(columns["attempt"], np.int64),
        seat=experiences.places,
        version=np.asarray(columns["own_version"]) if "own_version" in columns else oldest_versions(experiences),
        group=group,
        surprise=surprises(columns.get("shaped_reward"), group),
    )


def facts_of_table(table: pa.Table, first_seq: int) -> RowFacts:
    """The facts of a segment's rows; reads no other column than it must."""
    names = [name for name in _READ if name in table.column_names]
    return facts_of(experiences_from_table(table.select(names)), first_seq)


def group_numbers(names: list[str]) -> Integers:
    """A number for each name, the same in every process; 0 for the empty one."""
    numbers = {name: _number(name) if name else 0 for name in dict.fromkeys(names)}
    return np.array([numbers[name] for name in names], np.int64)


def surprises(reward: NDArray[Any] | None, group: Integers) -> Floats:
    """Distance of each reward from the mean of its group, `[n]`."""
    surprise = np.ones(len(group))
    if reward is None or not group.any():
        return surprise
    _, which, count = np.unique(group, return_inverse=True, return_counts=True)
    values = np.asarray(reward, np.float64)
    means = np.bincount(which, values) / count
    return np.where(group != 0, np.abs(values - means[which]), surprise)


def _number(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little") >> 1 or 1


def oldest_versions(experiences: Experiences) -> Integers:
    """Lowest version among the chosen elements of each row, `[n]`; 0 for a row without any."""
    chosen: NDArray[Any] = experiences.steps["mask"]
    positions = np.flatnonzero(chosen)
    before = np.searchsorted(positions, experiences.offsets)
    rows = np.flatnonzero(before[1:] > before[:-1])
    oldest = np.zeros(len(experiences), np.int64)
    if len(rows):
        oldest[rows] = np.minimum.reduceat(experiences.steps["version"][positions], before[:-1][rows])
    return oldest
