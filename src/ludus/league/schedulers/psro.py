"""PSRO: each generation, an answer to the meta-strategy joins each population. Self-play and fixed opponents are its
simplest cases: the meta-strategy is the newest policy, or nobody of the population.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ludus.config import PopulationConfig
from ludus.league.matchmaking.lineups import LineUp, LineUps
from ludus.league.matchmaking.roster import UNIFORM
from ludus.league.payoffs.normal_form import Array, marginals
from ludus.league.schedulers.assignment import Assignment, View
from ludus.records import PolicyRef


class Psro:
    """One learner of each agent in each generation."""

    def agents(self, config: PopulationConfig, *, name: str, seats: int) -> tuple[str, ...]:
        """The policy and the further kinds of learners; or one for each seat."""
        return (name, *config.learners) if config.shared else tuple(f"seat_{seat}" for seat in range(seats))

    def assignments(self, view: View) -> tuple[Assignment, ...]:
        """A best response of each agent to the meta-strategy."""
        return tuple(
            Assignment(
                agent=agent,
                learner=f"{agent}-{view.generation + 1}",
                generation=view.generation + 1,
                opponents=self._opponents(view, number),
                until=view.steps_of.get(agent, view.steps),
                begins_with=beginning(view, number, agent),
            )
            for number, agent in enumerate(view.roster.agents)
        )

    def is_frozen(self, view: View, done: Assignment) -> bool:
        """Every answer joins."""
        return True

    def is_over(self, view: View, done: Assignment) -> bool:
        """The next answer is another learner."""
        return True

    def _opponents(self, view: View, number: int) -> LineUps:
        return answer_to(view, number)


class SelfPlay(Psro):
    """Each answers the newest policy alone."""

    def _opponents(self, view: View, number: int) -> LineUps:
        joint = np.zeros([len(policies) for policies in _by_seat(view)])
        joint[tuple(size - 1 for size in joint.shape)] = 1.0
        return answer_to(view, number, joint)


class FixedOpponents(Psro):
    """Each answers the fixed players of `league.opponents`, whoever else is there."""

    def _opponents(self, view: View, number: int) -> LineUps:
        players = len(view.seats) if len(view.seats) > 1 else view.joint.ndim
        if len(view.seats) == 1:
            return LineUps.of_others((ref, 1.0) for ref in view.fixed)
        seats = range(players)
        return LineUps.of_seats((tuple(None if seat == number else ref for seat in seats), 1.0) for ref in view.fixed)


def answer_to(view: View, number: int, joint: Array | None = None) -> LineUps:
    """Whom the `number`-th agent meets: the others' part of the meta-strategy, or of another joint distribution."""
    joint = view.joint if joint is None else joint
    if len(view.seats) == 1:
        strategy = marginals(joint)[0]
        return LineUps.of_others(zip(view.seats[0], strategy.tolist(), strict=True))
    return LineUps.of_seats(_line_ups(_by_seat(view), joint, number))


def _by_seat(view: View) -> list[list[PolicyRef]]:
    players = view.joint.ndim
    return [list(view.seats[seat if len(view.seats) > 1 else 0]) for seat in range(players)]


def _line_ups(seats: list[list[PolicyRef]], joint: Array, learner: int) -> Iterator[tuple[LineUp, float]]:
    """Every combination of the other seats that is ever played."""
    others = joint.sum(axis=learner)
    for place in np.argwhere(others > 0):
        refs: list[PolicyRef | None] = []
        rest = iter(place.tolist())
        for seat, policies in enumerate(seats):
            refs.append(None if seat == learner else policies[next(rest)])
        yield tuple(refs), float(others[tuple(place)])


def beginning(view: View, number: int, agent: str) -> PolicyRef | None:
    """The policy whose weights a new learner of an agent gets; None where the config says what."""
    own = [recruit.ref for recruit in view.roster.frozen(agent)]
    if view.config.initialise == "inherit_last" and own:
        return own[-1]
    if view.config.initialise == "inherit_best" and own:
        seat = number if len(view.seats) > 1 else 0
        played = dict(zip(view.seats[seat], marginals(view.joint)[seat].tolist(), strict=True))
        return max(own, key=lambda ref: (played.get(ref, 0.0), ref.version))
    return None


def newest_or_uniform(view: View, agent: str) -> PolicyRef:
    """The newest policy of an agent, or the uniform player as long as there is none."""
    newest = view.roster.newest(agent)
    return UNIFORM if newest is None else newest.ref
