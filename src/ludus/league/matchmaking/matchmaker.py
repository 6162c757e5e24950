"""Who sits where: samplers weigh candidates for the learner's next opponent, the matchmaker draws from the weights.

Add a sampler by writing a class with `weigh` and registering a factory: `register_opponents("mine", Mine)`, then
`league.opponents: [{kind: custom, name: mine}]`; or install it as an entry point of the group `ludus.opponents`.

Invariants: no sampler but `mirror` ever offers the version that is learning now. `seats_for` is a pure function of
(pool, seed, task id); of `n` tasks in a row that start at a multiple of `n`, the learner has each of the `n` seats
once, against the same opponents; seats that hold the learner's own version learn, all others do not.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, count
from math import isfinite
from typing import Protocol

from ludus.config import LeagueConfig, OpponentConfig
from ludus.errors import ConfigError, LudusError
from ludus.games.protocol import GameSpec
from ludus.league.matchmaking.member import Member
from ludus.league.matchmaking.pool import Pool
from ludus.league.matchmaking.population import LineUps
from ludus.plugins import Registry
from ludus.records import PolicyRef, Seat, derive_seed

Weighed = Sequence[tuple[PolicyRef, float]]
"""Candidates with weights that need not sum to 1; empty when there is none yet."""
PFSP_WEIGHTINGS: dict[str, Callable[[float], float]] = {
    "squared": lambda x: (1.0 - x) ** 2,
    "variance": lambda x: x * (1.0 - x),
    "linear": lambda x: 1.0 - x,
    "linear_capped": lambda x: min(0.5, 1.0 - x),
}
"""AlphaStar's (Vinyals et al. 2019): how often an opponent is met, by the share of points in [0, 1] won against it."""
Distribution = list[tuple[PolicyRef, float]]
"""Candidates with probabilities that sum to 1."""


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


class Matchmaker:
    """Draws opponents for training tasks and pairs members for evaluation."""

    def __init__(self, config: LeagueConfig, pool: Pool, seed: int) -> None:
        self._pool = pool
        self._seed = seed
        self._revision: int | None = None
        self._choices: list[tuple[Distribution, float]] = []
        self._mirror: Seat | None = None
        """Who sits on every seat, where nobody but the learner can be drawn."""
        self._samplers: list[tuple[OpponentSampler, float]] = []
        for choice in config.opponents:
            self._samplers.append((make_sampler(choice), choice.weight))
            for name in choice.players:
                pool.add_fixed(name)

    def seats_for(self, task_id: int, spec: GameSpec) -> tuple[Seat, ...]:
        """The seats of a training task.

        A sampler that has no candidate yet (no past version at the start of a run) leaves its share to the others; if
        none has one, the learner plays itself and every seat learns.
        """
        if (line_ups := self._pool.line_ups) is not None and line_ups.fixed:
            return self._whole_line_up(line_ups, spec, task_id)
        self._available()
        if self._mirror is not None:
            return (self._mirror,) * spec.players
        learner = self._pool.learner.ref
        if spec.players == 1:
            return (Seat(policy=learner, learns=True),)
        block, turn = divmod(task_id, spec.players)
        first = derive_seed(self._seed, "seat", block) % spec.players
        opponents = (Seat(policy=ref, learns=ref == learner) for ref in self._draw_opponents(block))
        return seat_up(spec, (turn + first) % spec.players, Seat(policy=learner, learns=True), opponents)

    def _whole_line_up(self, line_ups: LineUps, spec: GameSpec, task_id: int) -> tuple[Seat, ...]:
        """One of the line-ups that say who has which side."""
        drawn = _draw([share for _, share in line_ups.fixed], self._uniform("line-up", task_id))
        mine = Seat(policy=self._pool.learner.ref, learns=True)
        sides = [mine if ref is None else Seat(policy=ref) for ref in line_ups.fixed[drawn][0]]
        return spread(spec, sides)

    def _available(self) -> list[tuple[Distribution, float]]:
        """Distributions of the samplers that have a candidate, with their weights; kept until the pool changes."""
        if self._revision != self._pool.revision:
            choices = [(normalise(sampler.weigh(self._pool)), weight) for sampler, weight in self._samplers]
            learner = self._pool.learner.ref
            mirror = [([(learner, 1.0)], 1.0)]
            self._choices = [(distribution, weight) for distribution, weight in choices if distribution] or mirror
            is_mirror = len(self._choices) == 1 and [ref for ref, _ in self._choices[0][0]] == [learner]
            self._mirror = Seat(policy=learner, learns=True) if is_mirror else None
            self._revision = self._pool.revision
        return self._choices

    def _draw_opponents(self, block: int) -> Iterator[PolicyRef]:
        """One opponent of one sampler after the other, independently, without end."""
        available = self._available()
        distribution, _ = available[_draw([weight for _, weight in available], self._uniform("sampler", block))]
        probabilities = [probability for _, probability in distribution]
        for number in count():
            yield distribution[_draw(probabilities, self._uniform("opponent", block, number))][0]

    def _uniform(self, *path: int | str) -> float:
        return float(derive_seed(self._seed, *path) / 2**63)


def seat_up(spec: GameSpec, seat: int, mine: Seat, others: Iterator[Seat]) -> tuple[Seat, ...]:
    """Put `mine` on a seat and on those of its team, and one of `others` on each other seat or team."""
    teams = spec.teams or tuple(range(spec.players))
    of_team = {teams[seat]: mine}
    for team in teams:
        if team not in of_team:
            of_team[team] = next(others)
    return tuple(of_team[team] for team in teams)


def spread(spec: GameSpec, sides: Sequence[Seat]) -> tuple[Seat, ...]:
    """Who sits in every seat, from who plays for each side."""
    side_of = {seat: side for side, seats in enumerate(spec.sides) for seat in seats}
    return tuple(sides[side_of[seat]] for seat in range(spec.players))


def evaluation_seats(
    spec: GameSpec,
    player: PolicyRef,
    opponent: PolicyRef,
    game_number: int,
    *,
    greedy: bool,
    nodes: tuple[int, int] = (1, 1),
) -> tuple[Seat, ...]:
    """The seats of one evaluation game; counting `game_number` up gives `player` every seat equally often.

    `nodes` are those of the player's and the opponent's search.
    """
    mine = Seat(policy=player, greedy=greedy, nodes=nodes[0])
    theirs = Seat(policy=opponent, greedy=greedy, nodes=nodes[1])
    return seat_up(spec, game_number % spec.players, mine, iter([theirs] * spec.players))


def rating_opponents(pool: Pool, player: PolicyRef, count: int) -> tuple[PolicyRef, ...]:
    """Past versions whose games would tell most about a player's rating: the most even matches, newest first."""
    member = pool.find(player) or pool.learner
    candidates = [other for other in reversed(pool.snapshots) if other.ref != player]
    candidates.sort(key=lambda other: -pool.trueskill.quality([member.rating, other.rating]))
    return tuple(other.ref for other in candidates[:count])


def _draw(weights: Sequence[float], uniform: float) -> int:
    """Index drawn in proportion to the weights; an index of weight 0 is never drawn."""
    bounds = list(accumulate(weights))
    last_positive = max(index for index, weight in enumerate(weights) if weight > 0)
    return bisect(bounds, uniform * bounds[-1], hi=last_positive)
