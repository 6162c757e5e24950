"""What the loop and an explorer say to each other. Experience travels beside `Played` as Arrow bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ludus.records import Task
from ludus.runtime import Stop


class Setup(msgspec.Struct, tag="setup", kw_only=True):
    """First message to an explorer: everything it needs to know."""

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


class Cancel(msgspec.Struct, tag="cancel", kw_only=True):
    """Nobody waits for these tasks any more: give them up, begun or not."""

    tasks: list[int]


class StepLimits(msgspec.Struct, tag="step_limits", kw_only=True):
    """Give up tasks of `[first, end)` as soon as they have more than so many steps. Replaces earlier limits."""

    limits: list[tuple[int, int, int]]
    """`(first, end, steps)` of each."""

    def broken_by(self, progress: Iterable[tuple[int, int]]) -> list[int]:
        """Tasks that are over their limit, of `(task, steps so far)`."""
        return [
            task
            for task, steps in progress
            if any(first <= task < end and steps > most for first, end, most in self.limits)
        ]


class Servers(msgspec.Struct, tag="servers", kw_only=True):
    """These inference servers of the worker's node there are from now on."""

    urls: list[str]


class Ready(msgspec.Struct, tag="ready", kw_only=True):
    """The worker is set up."""


class Speech(msgspec.Struct, kw_only=True):
    """What a language model has said since the last message, and how its engine fared."""

    replies: int = 0
    """Of training episodes that ended well, as the three below."""
    tokens: int = 0
    cut: int = 0
    """Replies that reached their length before their end."""
    closed: int = 0
    """Replies whose thoughts were closed by their budget."""
    prompt_tokens: int = 0
    """Of all requests."""
    reused_tokens: int = 0
    """Of these, found in the prefix cache."""
    looks: int = 0
    """Times that the engine's load was looked at."""
    running: float = 0.0
    """Requests, summed over the looks."""
    waiting: float = 0.0


class Played(msgspec.Struct, tag="played", kw_only=True):
    """Episodes are in the blob: first the episodes' bytes, then the experiences'."""

    episodes: int
    episode_bytes: int
    steps: int
    counts: dict[str, float] = {}
    """What endpoints have done since the last message, by name of the metric: `endpoints/gpt/cost`."""
    busy_s: float = 0.0
    """Seconds of playing since the last message."""
    sampled_tokens: int = 0
    """Since the last message, by the engine of a language model."""
    speech: Speech | None = None
    """Language models."""


class GaveUp(msgspec.Struct, tag="gave_up", kw_only=True):
    """These tasks were over their step limit."""

    tasks: list[int]


class Trouble(msgspec.Struct, tag="trouble", kw_only=True):
    """The worker's engine cannot be reached, and why; with no reason, it can again."""

    reason: str


class Broken(msgspec.Struct, tag="broken", kw_only=True):
    """The worker cannot go on, and why; it ends after this."""

    error: str


ToExplorer = Setup | Play | Cancel | StepLimits | Servers | Stop
FromExplorer = Ready | Played | GaveUp | Trouble | Broken
