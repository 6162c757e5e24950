"""Who belongs to a population: agents, the policies that came out of their learning, and whose weights each began with.

An *agent* is whoever learns for some seats: one for all seats, one for each, or the players of a league. Invariant: a
policy is named once and for good; its version counts the policies of its agent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ludus.errors import LudusError
from ludus.records import PolicyName, PolicyRef, PolicyVersion

UNIFORM = PolicyRef(name=PolicyName("random"))
"""The player that plays everything alike: every population begins with it."""


def label(ref: PolicyRef) -> str:
    """How a policy is written in tables: `main@3`, and fixed players by their name alone."""
    return str(ref) if ref.version else str(ref.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recruit:
    """A policy that has come out of learning."""

    ref: PolicyRef
    agent: str
    generation: int
    learner: str
    """The learner that it was at the time: those that begin anew get another name."""
    parent: PolicyRef | None = None
    """The policy of this population whose weights that learner began with, or that it was before."""
    steps: int = 0
    """Steps that its learner had done."""
    frozen: bool = True
    """Whether it belongs to the population for good; else it is a learner as it was at some time."""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "ref": str(self.ref), "parent": None if self.parent is None else str(self.parent)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Recruit:
        """The inverse of `to_json`."""
        parent = value["parent"]
        refs = {"ref": PolicyRef.parse(value["ref"]), "parent": None if parent is None else PolicyRef.parse(parent)}
        return cls(**{**value, **refs})


class Roster:
    """Policies in the order they came. Mutable; belongs to one thread."""

    def __init__(self, agents: Sequence[str]) -> None:
        self.agents = tuple(agents)
        self._recruits: dict[PolicyRef, Recruit] = {}

    def __iter__(self) -> Iterator[Recruit]:
        return iter(self._recruits.values())

    def __len__(self) -> int:
        return len(self._recruits)

    def next_ref(self, agent: str) -> PolicyRef:
        """What the next policy of an agent will be called; versions count from 1, for 0 is a fixed player's."""
        return PolicyRef(name=PolicyName(agent), version=PolicyVersion(1 + len(self.of(agent))))

    def add(self, recruit: Recruit) -> None:
        """Let a policy join."""
        if recruit.agent not in self.agents:
            raise LudusError(f"{recruit.ref}: there is no agent {recruit.agent}; there are {', '.join(self.agents)}")
        if recruit.ref != self.next_ref(recruit.agent):
            raise LudusError(f"{recruit.ref} cannot join; the next of its agent is {self.next_ref(recruit.agent)}")
        self._recruits[recruit.ref] = recruit

    def freeze(self, ref: PolicyRef) -> None:
        """Let a policy belong to the population for good."""
        self._recruits[ref] = replace(self._recruits[ref], frozen=True)

    def find(self, ref: PolicyRef) -> Recruit | None:
        """A policy by name and version."""
        return self._recruits.get(ref)

    def of(self, agent: str) -> list[Recruit]:
        """All policies of an agent, oldest first."""
        return [recruit for recruit in self._recruits.values() if recruit.agent == agent]

    def frozen(self, *agents: str) -> list[Recruit]:
        """Members for good, oldest first; of these agents, or of all."""
        wanted = agents or self.agents
        return [recruit for recruit in self._recruits.values() if recruit.frozen and recruit.agent in wanted]

    def newest(self, agent: str) -> Recruit | None:
        """The newest policy of an agent, frozen or not."""
        policies = self.of(agent)
        return policies[-1] if policies else None

    def state(self) -> list[dict[str, Any]]:
        """JSON from which `load_state` restores the roster."""
        return [recruit.to_json() for recruit in self._recruits.values()]

    def load_state(self, state: Sequence[Mapping[str, Any]]) -> None:
        """Replace everything by what `state` returned."""
        recruits = [Recruit.from_json(row) for row in state]
        self._recruits = {recruit.ref: recruit for recruit in recruits}
