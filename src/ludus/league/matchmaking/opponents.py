"""Ways to choose an opponent. Each is a small class that weighs candidates; the matchmaker draws from the weights.

Add one by writing a class with `weigh` and registering a factory: `register_opponents("mine", Mine)`, then
`league.opponents: [{kind: custom, name: mine}]`; or install it as an entry point of the group `ludus.opponents`.
Invariant: none but `mirror` ever offers the version that is learning now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Protocol

from ludus.config import OpponentConfig
from ludus.errors import ConfigError, LudusError
from ludus.league.matchmaking.member import Member
from ludus.league.matchmaking.pool import Pool
from ludus.plugins import Registry
from ludus.records import PolicyRef

Weighed = Sequence[tuple[PolicyRef, float]]
"""Candidates with weights that need not sum to 1; empty when there is none yet."""
PFSP_WEIGHTINGS: dict[str, Callable[[float], float]] = {
    "squared": lambda x: (1.0 - x) ** 2,
    "variance": lambda x: x * (1.0 - x),
    "linear": lambda x: 1.0 - x,
    "linear_capped": lambda x: min(0.5, 1.0 - x),
}
"""AlphaStar's (Vinyals et al. 2019): how often an opponent is met, by the share of points in [0, 1] won against it."""


class OpponentSampler(Protocol):
    """One way to choose an opponent."""

    def weigh(self, pool: Pool) -> Weighed:
        """Candidates for the learner's next opponent. Called when the pool has changed; must not change it."""
        ...


@dataclass(frozen=True, slots=True)
class _MemberSampler:
    """Some members of the pool, each with a weight; all alike unless told otherwise."""

    candidates: Callable[[Pool], Iterable[Member]]
    weight: Callable[[Pool, Member], float] = lambda pool, member: 1.0

    def weigh(self, pool: Pool) -> Weighed:
        return [(member.ref, self.weight(pool, member)) for member in self.candidates(pool)]


class _Population:
    """Those that a population gave this learner to answer, with the shares that it gave them."""

    def weigh(self, pool: Pool) -> Weighed:
        if pool.line_ups is None:
            raise ConfigError("league.opponents: kind population is for the learners of a population, which is none")
        return pool.line_ups.shares()


def _past(pool: Pool) -> list[Member]:
    """Active versions other than the learner's own."""
    return [member for member in pool.snapshots if member.ref != pool.learner.ref]


def _others(pool: Pool) -> list[Member]:
    """All active members but the learner: past versions and fixed players."""
    return [*_past(pool), *pool.fixed]


def _evenness(pool: Pool, member: Member) -> float:
    """TrueSkill's quality of the match. The learner's rating is that of its own version if that is in the pool."""
    learner = pool.find(pool.learner.ref) or pool.learner
    return pool.trueskill.quality([learner.rating, member.rating])


def _pfsp(config: OpponentConfig) -> OpponentSampler:
    """Prioritised fictitious self-play: the hard ones more often, by the learner's recent score against each."""
    weighting = PFSP_WEIGHTINGS[config.weighting]
    return _MemberSampler(_others, lambda pool, member: weighting(pool.recent_score(member)))


Factory = Callable[[OpponentConfig], OpponentSampler]

OPPONENTS: dict[str, Factory] = {
    "mirror": lambda config: _MemberSampler(lambda pool: [pool.learner]),
    "lagged": lambda config: _MemberSampler(_past),
    "random": lambda config: _MemberSampler(_others),
    "fixed": lambda config: _MemberSampler(lambda pool: [m for m in pool.fixed if m.ref.name in config.players]),
    "match_quality": lambda config: _MemberSampler(_others, _evenness),
    "pfsp": _pfsp,
    "population": lambda config: _Population(),
}

SAMPLERS: Registry[Factory] = Registry("opponent sampler", "ludus.opponents", built_in=OPPONENTS)


def register_opponents(name: str, factory: Factory) -> None:
    """Make a sampler available as `{kind: custom, name: <name>}`."""
    SAMPLERS.add(name, factory)


def make_sampler(config: OpponentConfig) -> OpponentSampler:
    """Build the sampler that a config names."""
    name = (config.name or "") if config.kind == "custom" else config.kind
    if (factory := SAMPLERS.get(name)) is None:
        raise ConfigError(f"league.opponents: {name!r}: {SAMPLERS.unknown(name)}")
    return factory(config)


def normalise(weighed: Weighed) -> list[tuple[PolicyRef, float]]:
    """Turn weights into probabilities that sum to 1; uniform when they are all 0."""
    if any(not isfinite(weight) or weight < 0 for _, weight in weighed):
        raise LudusError(f"opponent weights must be finite and not negative: {[(str(r), w) for r, w in weighed]}")
    most = max((weight for _, weight in weighed), default=0.0)
    if most == 0.0:
        return [(ref, 1.0 / len(weighed)) for ref, _ in weighed]
    # Scaling by the largest weight first keeps the total finite and away from 0.
    total = sum(weight / most for _, weight in weighed)
    return [(ref, weight / most / total) for ref, weight in weighed]
