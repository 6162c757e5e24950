"""What the loop and an explorer say to each other. Experience travels beside `Played` as Arrow bytes."""

from __future__ import annotations

from typing import Any

import msgspec

from ludus.records import Task
from ludus.runtime import Stop


class Setup(msgspec.Struct, tag="setup", kw_only=True):
    """First message to an explorer: everything it needs to know."""

    run_dir: str
    run: str
    config: str
    """The resolved config as JSON."""
    shape: dict[str, Any]
    """The policy's shape as JSON."""
    slots: int
    """Games this worker keeps in flight."""
    plugins: list[str] = []
    lm_config: str = ""
    """In a population with language models: the config that they speak by, as JSON."""
    spent: dict[str, float] = {}
    """What this worker's earlier lives have cost, by endpoint."""


class Play(msgspec.Struct, tag="play", kw_only=True):
    """Play these tasks, in any order."""

    tasks: list[Task]


class Ready(msgspec.Struct, tag="ready", kw_only=True):
    """The worker is set up."""


class Played(msgspec.Struct, tag="played", kw_only=True):
    """Episodes are in the blob: first the episodes' bytes, then the experiences'."""

    episodes: int
    episode_bytes: int
    steps: int
    counts: dict[str, float] = {}
    busy_s: float = 0.0
    """Seconds of playing since the last message."""
    sampled_tokens: int = 0
    """Since the last message, by the engine of a language model."""
    """What endpoints have done since the last message, by name of the metric: `endpoints/gpt/cost`."""


class Trouble(msgspec.Struct, tag="trouble", kw_only=True):
    """The worker's engine cannot be reached, and why; with no reason, it can again."""

    reason: str


class Broken(msgspec.Struct, tag="broken", kw_only=True):
    """The worker cannot go on, and why; it ends after this."""

    error: str


ToExplorer = Setup | Play | Stop
FromExplorer = Ready | Played | Trouble | Broken
