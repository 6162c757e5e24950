"""Plays games between policies of both kinds: those in which a language model sits in words, all others on boards.

Invariant: an episode is played whole by one of the two runners, and which one follows from who sits in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from ludus.explore.players.endpoints import Counts
from ludus.explore.runners.host_runner import HostRunner
from ludus.explore.runners.language_runner import LanguageRunner
from ludus.records import EpisodeBatch, Experiences, Task

BOARDS_S = 0.05
"""How long games on boards are played on before those in words get their turn, at most."""


class MixedRunner:
    """A runner of boards and one of words behind the same face."""

    def __init__(self, boards: HostRunner, words: LanguageRunner, speaks: Callable[[str], bool]) -> None:
        """`speaks` tells by its name whether somebody plays in words alone."""
        self._boards = boards
        self._words = words
        self._speaks = speaks
        self.slots = boards.slots

    @property
    def trouble(self) -> str:
        """Why the engine cannot be reached now; empty while it can."""
        return self._words.trouble

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to play."""
        return self._boards.is_idle and self._words.is_idle

    @property
    def finished_episodes(self) -> int:
        """Episodes that the next harvest would return."""
        return self._boards.finished_episodes + self._words.finished_episodes

    def submit(self, tasks: Iterable[Task]) -> None:
        """Queue tasks; each starts as soon as a slot is free."""
        for task in tasks:
            in_words = any(self._speaks(seat.policy.name) for seat in task.seats)
            (self._words if in_words else self._boards).submit([task])

    def step(self) -> None:
        """Play on for a moment.

        Raises:
            EngineLost: the engine has been out of reach for too long.
        """
        ends = time.monotonic() + BOARDS_S
        while not self._boards.is_idle and time.monotonic() < ends:
            self._boards.step()
        if not self._words.is_idle:
            self._words.step()

    def harvest(self) -> EpisodeBatch:
        """Hand over what has finished since the last call."""
        boards, words = self._boards.harvest(), self._words.harvest()
        return EpisodeBatch(
            episodes=(*boards.episodes, *words.episodes),
            experiences=Experiences.concatenate([boards.experiences, words.experiences]),
        )

    def take_counts(self) -> Counts:
        """What endpoints have done since the last call, by name of the metric."""
        return self._words.take_counts()

    def close(self) -> None:
        """Give up what is in flight and the engine."""
        self._words.close()
