"""Who sits where: the answer to "against whom is the next task played?".

Invariants: `seats_for` is a pure function of (pool, seed, task id); of `n` tasks in a row that start at a multiple of
`n`, the learner has each of the `n` seats once, against the same opponents; seats that hold the learner's own version
learn, all others do not.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Sequence
from itertools import accumulate, count

from ludus.config import LeagueConfig
from ludus.games.protocol import GameSpec
from ludus.league.matchmaking.lineups import LineUps
from ludus.league.matchmaking.opponents import OpponentSampler, make_sampler, normalise
from ludus.league.matchmaking.pool import Pool
from ludus.records import PolicyRef, Seat, derive_seed

Distribution = list[tuple[PolicyRef, float]]
"""Candidates with probabilities that sum to 1."""


class Matchmaker:
    """Draws opponents for training tasks and pairs members for evaluation."""

    def __init__(self, config: LeagueConfig, pool: Pool, seed: int) -> None:
        self._pool = pool
        self._seed = seed
        self._revision: int | None = None
        self._choices: list[tuple[Distribution, float]] = []
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
        learner = self._pool.learner.ref
        if (line_ups := self._pool.line_ups) is not None and line_ups.fixed:
            return self._whole_line_up(line_ups, spec, task_id)
        if spec.players == 1 or self._is_pure_mirror():
            return (Seat(policy=learner, learns=True),) * spec.players
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

    def _is_pure_mirror(self) -> bool:
        """Whether nobody but the learner can be drawn: then there is nothing to draw."""
        available = self._available()
        return len(available) == 1 and [ref for ref, _ in available[0][0]] == [self._pool.learner.ref]

    def _available(self) -> list[tuple[Distribution, float]]:
        """Distributions of the samplers that have a candidate, with their weights; kept until the pool changes."""
        if self._revision != self._pool.revision:
            choices = [(normalise(sampler.weigh(self._pool)), weight) for sampler, weight in self._samplers]
            mirror = [([(self._pool.learner.ref, 1.0)], 1.0)]
            self._choices = [(distribution, weight) for distribution, weight in choices if distribution] or mirror
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
    spec: GameSpec, player: PolicyRef, opponent: PolicyRef, game_number: int, *, greedy: bool
) -> tuple[Seat, ...]:
    """The seats of one evaluation game; counting `game_number` up gives `player` every seat equally often."""
    mine = Seat(policy=player, greedy=greedy)
    theirs = Seat(policy=opponent, greedy=greedy)
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
