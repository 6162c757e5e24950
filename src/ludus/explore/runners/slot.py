"""One game in flight: its position, who sits where, and what the learning seats have done so far."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from ludus.errors import RolloutError
from ludus.explore.players.fixed import Player
from ludus.games.protocol import Game, Position
from ludus.records import Episode, EpisodeId, Seat, Task, derive_seed

Decision = tuple[NDArray[np.float32], NDArray[np.bool_], int, float, float]
"""What a seat saw, what it might do, what it did, with which log-probability, and what it expected."""


class SeatTrace:
    """What one learning seat saw and did."""

    __slots__ = ("credits", "decisions", "noise", "states")

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.credits: dict[int, float] = {}
        """Reward by the number of the decision that earned it."""
        self.noise: list[int] = []
        """Numbers of the decisions that exploration noise made: they are not the policy's own."""
        self.states: list[NDArray[np.float32]] = []
        """The whole state at each decision, where a critic sees it; else nothing."""

    def credit(self, reward: float) -> None:
        """Give a reward to the last decision; what comes before the first belongs to none."""
        last = len(self.decisions) - 1
        if last >= 0 and reward:
            self.credits[last] = self.credits.get(last, 0.0) + reward


class Slot:
    """One game in flight."""

    __slots__ = (
        "_credited",
        "_moves",
        "acting",
        "error",
        "game",
        "generators",
        "id",
        "is_closed",
        "memories",
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
        self.seed = derive_seed(task.seed, "act", task.attempt)
        self.position: Position = game.start(task.game_seed)
        self.acting = self.position.acting()
        self.ply = 0
        self.moves: dict[int, int] = {}
        """What has been decided for this ply so far."""
        self.error: RolloutError | None = None
        """What went wrong in this ply."""
        self.traces = {seat: SeatTrace() for seat, who in enumerate(task.seats) if who.learns}
        self.generators: dict[int, np.random.Generator] = {}
        self.memories: dict[int, NDArray[np.float32]] = {}
        """What the network in each seat remembers; nothing before its first decision."""
        self._credited = [0.0] * game.spec.players
        self._moves: list[tuple[int, int, int]] = []

    def generator(self, seat: int) -> np.random.Generator:
        """The private randomness of a fixed player in this seat."""
        if seat not in self.generators:
            self.generators[seat] = np.random.default_rng(
                derive_seed(self.task.seed, "player", self.task.attempt, seat)
            )
        return self.generators[seat]

    def collect(self, seat: int) -> None:
        """Credit what a learning seat has earned since its last decision, before it decides again."""
        total = float(self.position.returns()[seat])
        self.traces[seat].credit(total - self._credited[seat])
        self._credited[seat] = total

    def play(self) -> None:
        """Make the moves that have been decided, and note them."""
        ply, moves = self.ply, self.moves
        for seat, action in moves.items():
            self._moves.append((ply, seat, action))
        self.position.act(moves)
        moves.clear()
        self.acting = self.position.acting()
        self.ply = ply + 1

    def finish(self, *, truncated: bool = False, error: str = "") -> Episode:
        """Close the game and credit what is left of the rewards to the last decisions."""
        returns: tuple[float, ...] = (0.0,) * self.game.spec.players
        if not error:
            returns = tuple(float(value) for value in self.position.returns())
            for seat, trace in self.traces.items():
                trace.credit(returns[seat] - self._credited[seat])
        plies, seats, actions = np.array(self._moves, np.int32).reshape(-1, 3).T
        return Episode(
            id=self.id,
            task=self.task,
            returns=returns,
            move_plies=plies,
            move_seats=seats.astype(np.int16),
            move_actions=actions,
            truncated=truncated,
            error=error,
            duration_s=time.monotonic() - self.started,
        )
