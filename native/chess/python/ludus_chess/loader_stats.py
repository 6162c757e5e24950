"""What a loader is doing: one row for each stage, in the order of the data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStats:
    """One stage. `load` is how many threads were busy with it on average since the last call."""

    name: str
    load: float
    busy_s: float
    queue: int
    capacity: int
    """0 = the stage has no bounded queue."""
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderStats:
    """All stages, and what a trainer waits for."""

    stages: tuple[StageStats, ...]
    refused: Mapping[str, int]
    """Refusals by reason: files, chunks and positions."""
    batches: int
    positions: int
    """Given so far, with those before a resume."""
    chunks: int
    """In the pool."""
    chunks_since_anchor: int
    is_scanned: bool
    """The files that were there at the start are known."""
    is_starved: bool
    """Too few chunks are left for a batch, and none is to join."""
    newest_key: str
    anchor: str
    cache_bytes: int

    @classmethod
    def from_native(cls, stats: Mapping[str, Any]) -> LoaderStats:
        """From what C++ gives; names of files are bytes there."""
        names = {name: os.fsdecode(stats[name]) for name in ("newest_key", "anchor")}
        return cls(**{**stats, **names, "stages": tuple(StageStats(**stage) for stage in stats["stages"])})

    def stage(self, name: str) -> StageStats:
        """A stage by its name."""
        return next(stage for stage in self.stages if stage.name == name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """What was not used, and why."""

    reason: str
    """One word."""
    detail: str
    file: str
    """Below the directory."""
    member: str
    """The number of the chunk in a tar; empty for a .gz."""
    offset: int
    """Of the record in the inflated chunk, or of the header in a tar."""
    is_whole: bool
    """The chunk or file, not one position of it."""

    @classmethod
    def from_native(cls, refusal: Mapping[str, Any]) -> Refusal:
        """From what C++ gives; names of files are bytes there."""
        return cls(**{**refusal, "file": os.fsdecode(refusal["file"])})
