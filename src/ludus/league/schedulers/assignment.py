"""What a scheduler looks at, and what it hands out: who learns, against which distribution, until when.

Invariant: an assignment is a function of the view it was made from, so that a run that was killed makes the same one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ludus.config import PopulationConfig
from ludus.league.matchmaking.population import LineUps, Roster
from ludus.league.payoffs.normal_form import Array
from ludus.records import PolicyRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One learner's part of a generation."""

    agent: str
    learner: str
    """Name of the learner; one that has learnt before goes on."""
    generation: int
    opponents: LineUps
    until: int
    """Steps that the learner will have done in all."""
    begins_with: PolicyRef | None = None
    """A policy of the population whose weights a new learner gets. Default: as the config says."""
    mirror: float = 0.0
    """Share of its games that the learner plays against itself."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Assignment:
        """The inverse of `to_json`."""
        begins_with = value["begins_with"]
        parsed = {
            "opponents": LineUps.from_json(value["opponents"]),
            "begins_with": None if begins_with is None else PolicyRef.parse(begins_with),
        }
        return cls(**{**value, **parsed})

    def to_json(self) -> dict[str, Any]:
        """Plain values, for events, checkpoints and people."""
        begins_with = None if self.begins_with is None else str(self.begins_with)
        return {**asdict(self), "opponents": self.opponents.to_json(), "begins_with": begins_with}


@dataclass(slots=True, kw_only=True)
class Learner:
    """A learner that has begun: how far it is."""

    name: str
    agent: str
    steps: int = 0
    frozen_at: int = 0
    """Steps at which it was last frozen."""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


class ScoreBook:
    """How learners do of late against others: shares of points in which old games count less and less.

    A learner changes while its results stay, so `age` is called for whoever has learnt. One imagined draw is always
    there, so that every score is finite and nobody is certain after three games. Mutable; belongs to one thread.
    """

    def __init__(self) -> None:
        self._points: dict[tuple[str, str], list[float]] = {}

    def add(self, player: str, opponent: str, points: float) -> None:
        """Count a game: 1 for a win, 1/2 for a draw, 0 for a defeat; for both sides."""
        for pair, won in (((player, opponent), points), ((opponent, player), 1.0 - points)):
            entry = self._points.setdefault(pair, [0.0, 0.0])
            entry[0] += 1.0
            entry[1] += won

    def score(self, player: str, opponent: str) -> float:
        """The player's share of points, with one imagined draw; 1/2 where they never met."""
        games, points = self._points.get((player, opponent), (0.0, 0.0))
        return (points + 0.5) / (games + 1.0)

    def games(self, player: str, opponent: str) -> float:
        """How many games the score rests on, old ones counting less."""
        return self._points.get((player, opponent), (0.0, 0.0))[0]

    def age(self, player: str, keep: float) -> None:
        """The player has changed: its games count `keep` times as much."""
        for pair, entry in self._points.items():
            if player in pair:
                entry[:] = [keep * value for value in entry]

    def forget(self, player: str) -> None:
        """The player begins anew."""
        self._points = {pair: entry for pair, entry in self._points.items() if player not in pair}

    def copy(self, player: str, name: str) -> None:
        """Give somebody the results of a player: what it was when it was frozen."""
        for (one, other), entry in list(self._points.items()):
            if player in (one, other):
                pair = (name if one == player else one, name if other == player else other)
                self._points[pair] = list(entry)

    def state(self) -> list[list[Any]]:
        """JSON from which `load_state` restores the book."""
        return [[player, opponent, *entry] for (player, opponent), entry in self._points.items()]

    def load_state(self, state: Any) -> None:
        """Replace everything by what `state` returned."""
        self._points = {(player, opponent): [games, points] for player, opponent, games, points in state}


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All that a scheduler looks at."""

    config: PopulationConfig
    steps: int
    """`train.steps`: what a learner gets in all."""
    seed: int
    generation: int
    """Generations done."""
    roster: Roster
    seats: Sequence[Sequence[PolicyRef]]
    """Policies of each seat's population in the order of the table; one list where they share it."""
    table: Array
    """What each player gets, `[players, a1, ..., an]`, NaN where nothing is known."""
    joint: Array
    """The meta-strategy over profiles of frozen policies, `[a1, ..., an]`; 0 for those that are not frozen."""
    learners: Mapping[str, Learner] = field(default_factory=dict)
    """The learner of each agent, by agent."""
    book: ScoreBook = field(default_factory=ScoreBook)
    steps_of: Mapping[str, int] = field(default_factory=dict)
    """What learners of some agents get instead, by agent."""
    fixed: tuple[PolicyRef, ...] = ()
    """Fixed players that `league.opponents` names."""


class Scheduler(ABC):
    """Decides what is learnt next. All methods are pure."""

    @abstractmethod
    def agents(self, config: PopulationConfig, *, name: str, seats: int) -> tuple[str, ...]:
        """Who learns; `name` is the policy's. Called once, before anything else."""

    @abstractmethod
    def assignments(self, view: View) -> tuple[Assignment, ...]:
        """The next generation: parts that do not depend on each other. Called when the payoffs are known."""

    def is_frozen(self, view: View, done: Assignment) -> bool:
        """Whether what came out of an assignment joins for good. Called when its matches have been played."""
        return True

    def is_over(self, view: View, done: Assignment) -> bool:
        """Whether the learner of an assignment that was frozen is done with; the next of its agent begins anew."""
        return True
