"""Ways to choose an opponent. Each is a small class that weighs candidates; the matchmaker draws from the weights.

Add one by writing a class with `weigh` and registering a factory: `register_opponents("mine", Mine)`, then
`league.opponents: [{kind: custom, name: mine}]`; or install it as an entry point of the group `ludus.opponents`.
Invariant: none but `mirror` ever offers the version that is learning now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Protocol

from ludus.config import OpponentConfig
from ludus.errors import ConfigError, LudusError
from ludus.league.matchmaking.member import Member
from ludus.league.matchmaking.pfsp import PFSP_WEIGHTINGS
from ludus.league.matchmaking.pool import Pool
from ludus.plugins import Registry
from ludus.records import PolicyRef

Weighed = Sequence[tuple[PolicyRef, float]]
"""Candidates with weights that need not sum to 1; empty when there is none yet."""


class OpponentSampler(Protocol):
    """One way to choose an opponent."""

    def weigh(self, pool: Pool) -> Weighed:
        """Candidates for the learner's next opponent. Called when the pool has changed; must not change it."""
        ...


class Mirror:
    """The version that is learning now: every seat learns."""

    def weigh(self, pool: Pool) -> Weighed:
        """The learner, always."""
        return [(pool.learner.ref, 1.0)]


class Lagged:
    """Uniform over past versions."""

    def weigh(self, pool: Pool) -> Weighed:
        """Active versions other than the learner's own."""
        return [(member.ref, 1.0) for member in _past(pool)]


class UniformRandom:
    """Uniform over past versions and fixed players."""

    def weigh(self, pool: Pool) -> Weighed:
        """All active members but the learner."""
        return [(member.ref, 1.0) for member in _others(pool)]


class Fixed:
    """Uniform over the named fixed players."""

    def __init__(self, players: Sequence[str]) -> None:
        self.players = tuple(players)

    def weigh(self, pool: Pool) -> Weighed:
        """The named players that are active."""
        return [(member.ref, 1.0) for member in pool.fixed if member.ref.name in self.players]


class MatchQuality:
    """In proportion to TrueSkill's quality of the match: opponents about as good as the learner."""

    def weigh(self, pool: Pool) -> Weighed:
        """All active members but the learner, weighed by how even the game would be."""
        rate = pool.trueskill.quality
        mine = _rated_learner(pool).rating
        return [(member.ref, rate([mine, member.rating])) for member in _others(pool)]


class Pfsp:
    """Prioritised fictitious self-play: past versions and fixed players, the hard ones more often."""

    def __init__(self, weighting: str = "squared") -> None:
        self.weighting = PFSP_WEIGHTINGS[weighting]

    def weigh(self, pool: Pool) -> Weighed:
        """All active members but the learner, weighed by its recent score against each."""
        return [(member.ref, self.weighting(pool.recent_score(member))) for member in _others(pool)]


class Population:
    """Those that a population gave this learner to answer, with the shares that it gave them."""

    def weigh(self, pool: Pool) -> Weighed:
        """Whoever is in the pool's line-ups."""
        if pool.line_ups is None:
            raise ConfigError("league.opponents: kind population is for the learners of a population, which is none")
        return pool.line_ups.shares()


Factory = Callable[[OpponentConfig], OpponentSampler]

OPPONENTS: dict[str, Factory] = {
    "mirror": lambda config: Mirror(),
    "lagged": lambda config: Lagged(),
    "random": lambda config: UniformRandom(),
    "fixed": lambda config: Fixed(config.players),
    "match_quality": lambda config: MatchQuality(),
    "pfsp": lambda config: Pfsp(config.weighting),
    "population": lambda config: Population(),
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


def _past(pool: Pool) -> list[Member]:
    return [member for member in pool.snapshots if member.ref != pool.learner.ref]


def _others(pool: Pool) -> list[Member]:
    return [*_past(pool), *pool.fixed]


def _rated_learner(pool: Pool) -> Member:
    """Who carries the learner's rating: its own version if that is in the pool, else the learner."""
    return pool.find(pool.learner.ref) or pool.learner
