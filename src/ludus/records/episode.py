"""An episode: one task played to its end (or to its failure), enough to replay it move by move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from ludus.records.experience import Experiences
from ludus.records.ids import EpisodeId
from ludus.records.task import Task


class Episode(msgspec.Struct, frozen=True, kw_only=True):
    """What happened. With `task.game`, `task.seed` and the moves, the game can be replayed.

    `move_seats` and `move_actions` are parallel, `[L]`, in the order of play; in a simultaneous game the seats that
    act together follow each other with the same `move_plies`.
    """

    id: EpisodeId
    task: Task
    returns: tuple[float, ...]
    """Total reward per seat."""
    move_plies: NDArray[np.int32]
    move_seats: NDArray[np.int16]
    move_actions: NDArray[np.int32]
    """In a game of words: 1 for a move that the rules allowed, 0 for one that they did not."""
    move_texts: tuple[str, ...] = ()
    """In a game of words: the moves as they were found in what was said, parallel to the others. In an attempt at a
    task: what the policy was told before each reply."""
    replies: tuple[str, ...] = ()
    """In words: everything that was said, parallel to the others."""
    rewards: Mapping[str, float] = msgspec.field(default_factory=dict)
    """Of an attempt at a task: what its reward is made of, by name and before weights. Empty for games."""
    truncated: bool = False
    error: str = ""
    """Empty when the episode ended by the rules; otherwise why it did not."""
    duration_s: float = 0.0
    sampled: int = 0
    """Tokens that language models of the run sampled in it, those of failed tries included. 0 on boards."""

    @classmethod
    def failed(cls, id: EpisodeId, task: Task, error: str) -> Episode:
        """An episode of which nothing is known but that it failed."""
        return cls(
            id=id,
            task=task,
            returns=(0.0,) * len(task.seats),
            move_plies=np.zeros(0, np.int32),
            move_seats=np.zeros(0, np.int16),
            move_actions=np.zeros(0, np.int32),
            error=error,
        )

    @property
    def length(self) -> int:
        """Number of plies."""
        return int(self.move_plies[-1]) + 1 if len(self.move_plies) else 0

    @property
    def steps(self) -> int:
        """How long it was in steps of play, whatever the machine: plies and sampled tokens."""
        return self.length + self.sampled

    def turns(self) -> list[tuple[int, int, int]]:
        """The moves as (ply, seat, action), for display."""
        columns = (self.move_plies, self.move_seats, self.move_actions)
        return list(zip(*(column.tolist() for column in columns), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeBatch:
    """Finished episodes with the experience of their learning seats: what an explorer hands over."""

    episodes: tuple[Episode, ...]
    experiences: Experiences
