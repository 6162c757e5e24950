"""One game in flight: its position, who sits where, and what the learning seats have done so far."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.errors import RolloutError
from ludus.explore.players import Player
from ludus.games.protocol import Game, Position
from ludus.records import Episode, EpisodeId, Seat, Task, derive_seed


class SeatTrace:
    """What one learning seat saw and did; parallel lists, one element per decision."""

    __slots__ = ("actions", "chosen", "legal", "logps", "observations", "rewards", "values")

    def __init__(self) -> None:
        self.observations: list[NDArray[np.float32]] = []
        self.legal: list[NDArray[np.bool_]] = []
        self.actions: list[int] = []
        self.logps: list[float] = []
        self.values: list[float] = []
        self.rewards: list[float] = []
        self.chosen: list[bool] = []
        """Whether the policy chose the action; moves of exploration noise are not its own."""


class Slot:
    """One game in flight."""

    __slots__ = (
        "_credited",
        "_move_actions",
        "_move_plies",
        "_move_seats",
        "acting",
        "error",
        "game",
        "generators",
        "id",
        "is_closed",
        "moves",
        "players",
        "ply",
        "position",
        "seats",
        "seed",
        "started",
        "task",
        "traces",
    )

    def __init__(self, task: Task, game: Game, episode: EpisodeId, players: tuple[Player | None, ...]) -> None:
        """`players` has the fixed player of each seat, None where a network plays."""
        self.task = task
        self.players = players
        self.game = game
        self.id = episode
        self.is_closed = False
        self.started = time.monotonic()
        self.seats: tuple[Seat, ...] = task.seats
        self.seed = np.uint64(derive_seed(task.seed, "act", task.attempt))
        self.position: Position = game.start(derive_seed(task.seed, "game"))
        self.acting = self.position.acting()
        self.ply = 0
        self.moves: dict[int, int] = {}
        """What has been decided for this ply so far."""
        self.error: RolloutError | None = None
        """What went wrong in this ply."""
        self.traces = {seat: SeatTrace() for seat, who in enumerate(task.seats) if who.learns}
        self.generators: dict[int, np.random.Generator] = {}
        self._credited = [0.0] * game.spec.players
        self._move_plies: list[int] = []
        self._move_seats: list[int] = []
        self._move_actions: list[int] = []

    def generator(self, seat: int) -> np.random.Generator:
        """The private randomness of a fixed player in this seat."""
        if seat not in self.generators:
            self.generators[seat] = np.random.default_rng(
                derive_seed(self.task.seed, "player", self.task.attempt, seat)
            )
        return self.generators[seat]

    def note(self, seat: int, row: Sequence[Any], *, chosen: bool = True) -> None:
        """Add a decision of a learning seat: (observation, legal, action, logp, value)."""
        trace = self.traces[seat]
        if self.game.spec.rewards_every_move:
            # What the seat earned since its last decision belongs to that decision; before the first, to none.
            total = float(self.position.returns()[seat])
            if trace.rewards:
                trace.rewards[-1] += total - self._credited[seat]
            self._credited[seat] = total
        observation, legal, action, logp, value = row
        trace.observations.append(observation)
        trace.legal.append(legal)
        trace.actions.append(action)
        trace.logps.append(logp)
        trace.values.append(value)
        trace.rewards.append(0.0)
        trace.chosen.append(chosen)

    def play(self) -> None:
        """Make the moves that have been decided, and note them."""
        for seat, action in self.moves.items():
            self._move_plies.append(self.ply)
            self._move_seats.append(seat)
            self._move_actions.append(action)
        self.position.act(self.moves)
        self.moves.clear()
        self.acting = self.position.acting()
        self.ply += 1

    def finish(self, *, truncated: bool = False, error: str = "") -> Episode:
        """Close the game and credit what is left of the rewards to the last decisions."""
        returns: tuple[float, ...] = (0.0,) * self.game.spec.players
        if not error:
            returns = tuple(float(value) for value in self.position.returns())
            for seat, trace in self.traces.items():
                if trace.rewards:
                    trace.rewards[-1] += returns[seat] - self._credited[seat]
        return Episode(
            id=self.id,
            task=self.task,
            returns=returns,
            move_plies=np.array(self._move_plies, np.int32),
            move_seats=np.array(self._move_seats, np.int16),
            move_actions=np.array(self._move_actions, np.int32),
            truncated=truncated,
            error=error,
            duration_s=time.monotonic() - self.started,
        )

    def sequence_columns(self, episode: Episode, seat: int) -> dict[str, Any]:
        """The sequence columns of one learning seat."""
        return {
            "episode": self.id,
            "task": self.task.id,
            "attempt": self.task.attempt,
            "game": self.task.game,
            "seat": seat,
            "policy": str(self.seats[seat].policy.name),
            "group": self.task.group,
            "final_reward": episode.returns[seat],
            "shaped_reward": episode.returns[seat],
            "truncated": episode.truncated,
        }
