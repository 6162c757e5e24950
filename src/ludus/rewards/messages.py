"""What an explorer and the process of its custom rewards say to each other."""

from __future__ import annotations

from typing import Any

import msgspec

from ludus.runtime import Stop


class Prepare(msgspec.Struct, tag="prepare", kw_only=True):
    """First message: where the rewards come from, and which are needed."""

    plugins: list[str]
    names: list[str]


class Prepared(msgspec.Struct, tag="prepared", kw_only=True):
    """The rewards are there."""


class MarkThis(msgspec.Struct, tag="mark_this", kw_only=True):
    """Mark one attempt."""

    number: int
    name: str
    response: str
    inputs: dict[str, Any]
    options: dict[str, Any]
    seed: int
    tokens: int | None


class Marked(msgspec.Struct, tag="marked", kw_only=True):
    """The mark of an attempt, or why there is none."""

    number: int
    value: float = 0.0
    note: str = ""
    problem: str = ""


class Broken(msgspec.Struct, tag="broken", kw_only=True):
    """The process cannot go on, and why; it ends after this."""

    error: str


ToRewards = Prepare | MarkThis | Stop
FromRewards = Prepared | Marked | Broken
