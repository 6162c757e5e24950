"""Typed ids, how the derived ones are made, and which policy in which version.

Invariant: an episode's id depends on (run, task, attempt) alone, so playing a task again after a crash gives the
same id and inserting it twice is a no-op. Fixed players (`random`, `mcts-25`) are policies with version 0.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NewType

import msgspec

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


FIRST_VERSION = PolicyVersion(0)


class PolicyRef(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One frozen version of one policy; written `main@12`."""

    name: PolicyName
    version: PolicyVersion = FIRST_VERSION

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"

    @classmethod
    def parse(cls, text: str) -> PolicyRef:
        """Read `main@12`; a bare name means version 0."""
        name, _, version = text.partition("@")
        return cls(name=PolicyName(name), version=PolicyVersion(int(version or 0)))
