"""Typed ids, and how the derived ones are made.

Invariant: an episode's id depends on (run, task, attempt) alone, so playing a task again after a crash gives the
same id and inserting it twice is a no-op.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NewType

EpisodeId = NewType("EpisodeId", str)
TaskId = NewType("TaskId", int)
PolicyName = NewType("PolicyName", str)
PolicyVersion = NewType("PolicyVersion", int)


def episode_id(run: str, task: TaskId, attempt: int) -> EpisodeId:
    """Derive the id of one attempt at one task of one run (24 hex digits)."""
    return EpisodeId(blake2b(f"{run}/{task}/{attempt}".encode(), digest_size=12).hexdigest())


def derive_seed(seed: int, *path: int | str) -> int:
    """Derive a 63-bit seed for a named purpose, independent for every distinct path."""
    text = "/".join(map(str, (seed, *path)))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") >> 1
