"""All that a population is, between two of its steps: what every checkpoint holds.

Invariant: the next assignment, the meta-strategy and the next match follow from this and from the config.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ludus.config import StopConfig
from ludus.games.protocol import GameSpec
from ludus.league.matchmaking.population import UNIFORM, Roster, label
from ludus.league.payoffs.empirical_game import EmpiricalGame
from ludus.league.payoffs.normal_form import Array
from ludus.league.schedulers import Assignment, Learner, ScoreBook
from ludus.records import PolicyRef


@dataclass(slots=True, kw_only=True)
class PopulationState:
    """Mutable; owned by the population's loop."""

    roster: Roster
    table: EmpiricalGame
    book: ScoreBook = field(default_factory=ScoreBook)
    learners: dict[str, Learner] = field(default_factory=dict)
    """The learner of each agent that has one, by agent."""
    generation: int = 0
    """Generations done."""
    assignments: tuple[Assignment, ...] = ()
    """The parts of the next generation, once they are handed out: what some have become must not change the others'."""
    done: list[str] = field(default_factory=list)
    """Learners whose part of the next generation is done."""
    joint: Array = field(default_factory=lambda: np.ones((1, 1)))
    """The meta-strategy over profiles."""
    history: list[dict[str, Any]] = field(default_factory=list)
    """Of every generation: the shares of policies by seat, the metrics."""
    jobs: int = 0
    """Blocks of matches played."""
    steps: int = 0
    """Steps that all learners have done."""
    cpu_s: float = 0.0

    @classmethod
    def begin(cls, agents: tuple[str, ...], spec: GameSpec, *, shared: bool) -> PopulationState:
        """A population of the uniform player alone."""
        spread = (spec.max_return - spec.min_return) / 2
        players, sizes = len(spec.sides), {len(seats) for seats in spec.sides}
        table = EmpiricalGame(
            players,
            symmetric=shared,
            # What a side gets is the mean of its seats: of teams of different sizes that does not add up to nothing.
            constant_sum=0.0 if spec.is_zero_sum and len(sizes) == 1 else None,
            payoff_spread=spread if 0 < spread < np.inf else 1.0,
        )
        for player in range(1 if shared else players):
            table.add_policy(label(UNIFORM), player)
        return cls(roster=Roster(agents), table=table, joint=np.ones((1,) * players))

    @property
    def seats(self) -> list[list[PolicyRef]]:
        """Policies of each seat's population as the table has them; one list where they share it."""
        names = self.table.populations.names
        return [[PolicyRef.parse(name) for name in of] for of in (names[:1] if self.table.symmetric else names)]

    def frozen_places(self) -> list[list[int]]:
        """Of each player: the places of those policies that belong to the population for good."""
        frozen = {UNIFORM, *(recruit.ref for recruit in self.roster.frozen())}
        seats = self.seats * (self.table.players if self.table.symmetric else 1)
        return [[place for place, ref in enumerate(refs) if ref in frozen] for refs in seats]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "agents": list(self.roster.agents),
            "roster": self.roster.state(),
            "table": self.table.state(),
            "book": self.book.state(),
            "learners": [learner.to_json() for learner in self.learners.values()],
            "generation": self.generation,
            "assignments": [assignment.to_json() for assignment in self.assignments],
            "done": list(self.done),
            "joint": self.joint.tolist(),
            "history": self.history,
            "jobs": self.jobs,
            "steps": self.steps,
            "cpu_s": self.cpu_s,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PopulationState:
        """The inverse of `to_json`."""
        state = cls(
            roster=Roster(value["agents"]),
            table=EmpiricalGame.from_state(value["table"]),
            learners={row["agent"]: Learner(**row) for row in value["learners"]},
            generation=value["generation"],
            assignments=tuple(Assignment.from_json(row) for row in value.get("assignments", ())),
            done=list(value["done"]),
            joint=np.array(value["joint"]),
            history=list(value["history"]),
            jobs=value["jobs"],
            steps=value["steps"],
            cpu_s=value["cpu_s"],
        )
        state.roster.load_state(value["roster"])
        state.book.load_state(value["book"])
        return state


def reason_to_stop(state: PopulationState, stop: StopConfig) -> str:
    """Why there is no further generation; empty while there is one."""
    curve = nash_convs(state)
    if state.generation >= stop.generations:
        return f"{state.generation:,} generations are done (population.stop.generations)"
    if curve and stop.nash_conv is not None and curve[-1] <= stop.nash_conv:
        return f"NashConv {curve[-1]:.4g} is at most population.stop.nash_conv ({stop.nash_conv:g})"
    if curve and stop.plateau is not None:
        since = len(curve) - 1 - curve.index(min(curve))
        if since >= stop.plateau:
            return f"no lower NashConv for {since} generations (population.stop.plateau)"
    return ""


def nash_convs(state: PopulationState) -> list[float]:
    """Exploitability of every generation in which it is known: exact, or else its bound."""
    metrics = [entry["metrics"] for entry in state.history]
    key = "psro/nash_conv" if any("psro/nash_conv" in each for each in metrics) else "psro/nash_conv_bound"
    return [each[key] for each in metrics if key in each]
