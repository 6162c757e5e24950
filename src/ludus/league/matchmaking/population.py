"""A population: agents, the policies that came out of their learning, and the line-ups that their learners answer.

An *agent* learns for some seats: one for all seats, one for each, or the players of a league. Invariant: a policy is
named once and for good; its version counts the policies of its agent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import Any

from ludus.errors import CorruptRecord, LudusError
from ludus.records import PolicyName, PolicyRef, PolicyVersion

UNIFORM = PolicyRef(name=PolicyName("random"))
"""The player that plays everything alike: every population begins with it."""
LineUp = tuple[PolicyRef | None, ...]

NEGLIGIBLE = 1e-6
"""Policies that are played less often than this are left out."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class LineUps:
    """A distribution over the opponents of one learner: what a scheduler gives it to answer.

    `others` are drawn independently for each other seat while the learner takes every seat in turn. `fixed` line-ups
    are drawn whole and name every side (a seat, or a team); the learner has the one that is None. There is one kind or
    the other, every probability is positive, and they sum to 1.
    """

    others: tuple[tuple[PolicyRef, float], ...] = ()
    fixed: tuple[tuple[LineUp, float], ...] = ()

    @classmethod
    def of_others(cls, shares: Iterable[tuple[PolicyRef, float]]) -> LineUps:
        """Opponents for any seat; shares need not sum to 1, and equal policies add up."""
        total: dict[PolicyRef, float] = {}
        for ref, share in shares:
            total[ref] = total.get(ref, 0.0) + share
        return cls(others=_normalised(total.items()))

    @classmethod
    def of_seats(cls, shares: Iterable[tuple[LineUp, float]]) -> LineUps:
        """Whole line-ups; shares need not sum to 1."""
        return cls(fixed=_normalised(shares))

    @property
    def policies(self) -> tuple[PolicyRef, ...]:
        """Everybody who can be drawn, each once."""
        named = [ref for ref, _ in self.others] + [ref for seats, _ in self.fixed for ref in seats if ref is not None]
        return tuple(dict.fromkeys(named))

    @property
    def seat(self) -> int | None:
        """The seat that the learner always has; None where it takes every seat in turn."""
        return self.fixed[0][0].index(None) if self.fixed else None

    def shares(self) -> list[tuple[PolicyRef, float]]:
        """How often each opponent is met, by policy; of several seats, their mean."""
        if self.others:
            return list(self.others)
        total = dict.fromkeys(self.policies, 0.0)
        for seats, share in self.fixed:
            present = [ref for ref in seats if ref is not None]
            for ref in present:
                total[ref] += share / len(present)
        return list(total.items())

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "others": [[str(ref), share] for ref, share in self.others],
            "fixed": [[[None if ref is None else str(ref) for ref in seats], share] for seats, share in self.fixed],
        }

    @classmethod
    def from_json(cls, value: Any) -> LineUps:
        """The inverse of `to_json`.

        Raises:
            CorruptRecord: the value is none.
        """
        try:
            found = cls(
                others=tuple((PolicyRef.parse(ref), float(share)) for ref, share in value["others"]),
                fixed=tuple(
                    (tuple(None if ref is None else PolicyRef.parse(ref) for ref in seats), float(share))
                    for seats, share in value["fixed"]
                ),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptRecord(f"these are no line-ups: {error!r}") from error
        shares = [share for _, share in (*found.others, *found.fixed)]
        if bool(found.others) == bool(found.fixed) or not all(isfinite(share) and share > 0 for share in shares):
            raise CorruptRecord("line-ups name others or seats, each with a positive share")
        if any(seats.count(None) != 1 for seats, _ in found.fixed):
            raise CorruptRecord("a line-up has one seat for the learner")
        return found


def _normalised(shares: Iterable[tuple[Any, float]]) -> tuple[tuple[Any, float], ...]:
    listed = list(shares)
    total = sum(share for _, share in listed)
    kept = [(what, share) for what, share in listed if share > NEGLIGIBLE * total]
    if not kept:
        raise LudusError("a learner needs somebody to answer, and there is nobody with a positive share")
    whole = sum(share for _, share in kept)
    return tuple((what, share / whole) for what, share in kept)
