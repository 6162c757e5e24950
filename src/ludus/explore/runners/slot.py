"""One game in flight: its position, who sits where, and what the learning seats have done so far.

Invariant: whether a decision is exploration noise and which action that takes depend on (episode seed, ply, seat)
alone, as all else that is drawn in play does.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ludus.errors import RolloutError
from ludus.explore.players.fixed import Player
from ludus.games.answers import read_returns
from ludus.games.protocol import Game, Position
from ludus.records import Episode, EpisodeId, Seat, Task, derive_seed
from ludus.records.uniforms import uniforms

NOISE, NOISE_CHOICE = 0x6E6F697365, 0x63686F696365
"""Set the random numbers of exploration noise apart from those of the policy."""

Decision = tuple[NDArray[np.float32], NDArray[np.bool_], int, float, float]
"""What a seat saw, what it might do, what it did, with which log-probability, and what it expected."""


def noisy_action(share: float, legal: NDArray[np.bool_], *, seed: int, ply: int, seat: int) -> int | None:
    """A uniformly random legal action for that share of decisions, else None."""
    coordinates = np.array([ply], np.uint64), np.array([seat], np.uint64)
    if uniforms(np.array([seed ^ NOISE], np.uint64), *coordinates)[0] >= share:
        return None
    options = np.flatnonzero(legal)
    draw = uniforms(np.array([seed ^ NOISE_CHOICE], np.uint64), *coordinates)[0]
    return int(options[int(draw * len(options))])


class SeatTrace:
    """What one learning seat saw and did."""

    __slots__ = ("_credited", "credits", "decisions", "noise", "states")

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.credits: dict[int, float] = {}
        """Reward by the number of the decision that earned it."""
        self.noise: list[int] = []
        """Numbers of the decisions that exploration noise made: they are not the policy's own."""
        self.states: list[NDArray[np.float32]] = []
        """The whole state at each decision, where a critic sees it; else nothing."""
        self._credited = 0.0

    def note(self, decision: Decision, noise: int | None, state: NDArray[np.float32] | None) -> int:
        """Note a decision, or the action that exploration noise puts in its place; returns the action."""
        if noise is not None:
            self.noise.append(len(self.decisions))
            decision = (*decision[:2], noise, 0.0, decision[4])
        self.decisions.append(decision)
        if state is not None:
            self.states.append(state)
        return decision[2]

    def credit(self, total: float) -> None:
        """Give what the seat has earned since the last call to its last decision; before the first it is nobody's."""
        reward, self._credited = total - self._credited, total
        last = len(self.decisions) - 1
        if last >= 0 and reward:
            self.credits[last] = self.credits.get(last, 0.0) + reward


@dataclass(slots=True)
class SlotSeat:
    """One seat of a game in flight."""

    who: Seat
    player: Player | None
    """None where a network plays."""
    generator: np.random.Generator | None = None
    """The private randomness of a fixed player, from its first decision on."""
    memory: NDArray[np.float32] | None = None
    """What a network remembers, from its first decision on."""


class Slot:
    """One game in flight."""

    def __init__(self, task: Task, game: Game, players: tuple[Player | None, ...]) -> None:
        """`players` has the fixed player of each seat, None where a network plays."""
        self.task = task
        self.game = game
        self.started = time.monotonic()
        self.seats = tuple(SlotSeat(who, player) for who, player in zip(task.seats, players, strict=True))
        self.traces = {seat: SeatTrace() for seat, who in enumerate(task.seats) if who.learns}
        self.seed = derive_seed(task.seed, "act", task.attempt)
        self.position: Position = game.start(task.game_seed)
        self.acting = self.position.acting()
        self.ply = 0
        self.moves: dict[int, int] = {}
        """What has been decided for this ply so far."""
        self.error: RolloutError | None = None
        """What went wrong in this ply."""
        self._history: list[tuple[int, int, int]] = []
        """Ply, seat and action of each move."""

    def generator(self, seat: int) -> np.random.Generator:
        """The private randomness of a fixed player in this seat."""
        sitting = self.seats[seat]
        if sitting.generator is None:
            sitting.generator = np.random.default_rng(derive_seed(self.task.seed, "player", self.task.attempt, seat))
        return sitting.generator

    def collect(self, seat: int) -> None:
        """Credit what a learning seat has earned since its last decision, before it decides again."""
        self.traces[seat].credit(read_returns(self.position, len(self.seats))[seat])

    def play(self) -> None:
        """Make the moves that have been decided, and note them."""
        ply, moves = self.ply, self.moves
        for seat, action in moves.items():
            self._history.append((ply, seat, action))
        self.position.act(moves)
        moves.clear()
        self.acting = self.position.acting()
        self.ply = ply + 1

    def finish(self, id: EpisodeId, *, truncated: bool = False, error: str = "") -> Episode:
        """Close the game and credit what is left of the rewards to the last decisions."""
        returns: tuple[float, ...] = (0.0,) * self.game.spec.players
        if not error:
            returns = read_returns(self.position, len(returns))
            for seat, trace in self.traces.items():
                trace.credit(returns[seat])
        plies, seats, actions = np.array(self._history, np.int32).reshape(-1, 3).T
        return Episode(
            id=id,
            task=self.task,
            returns=returns,
            move_plies=plies,
            move_seats=seats.astype(np.int16),
            move_actions=actions,
            truncated=truncated,
            error=error,
            duration_s=time.monotonic() - self.started,
        )
