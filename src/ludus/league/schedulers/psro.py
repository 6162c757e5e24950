"""PSRO and its kin: each generation, an answer to the meta-strategy joins each population.

Self-play and fixed opponents are its simplest cases: the meta-strategy is the newest policy, or nobody of the
population. Pipelined PSRO and a league in turns differ in who learns when.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ludus.config import PopulationConfig
from ludus.errors import LudusError
from ludus.league.matchmaking.population import UNIFORM, LineUp, LineUps
from ludus.league.payoffs.normal_form import Array, marginals
from ludus.league.schedulers.assignment import Assignment, Scheduler, View
from ludus.league.solvers import solve_joint
from ludus.records import PolicyRef


class Psro(Scheduler):
    """One learner of each agent in each generation: every answer joins, and the next one is another learner."""

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
        if len(view.seats) == 1:
            return LineUps.of_others((ref, 1.0) for ref in view.fixed)
        seats = range(len(view.seats))
        return LineUps.of_seats((tuple(None if seat == number else ref for seat in seats), 1.0) for ref in view.fixed)


class PipelinedPsro(Psro):
    """Pipelined PSRO (McAleer et al. 2020): `population.pipeline` learners at once, each answering those below it.

    In every generation each learner does its share of `train.steps`. The lowest has then had all of them: it is frozen,
    and a new one begins on top. What a learner meets first is what is about to be frozen, so that it has not to begin
    anew against it. The order of learners is that of their numbers; the lowest answers frozen policies alone.
    """

    def agents(self, config: PopulationConfig, *, name: str, seats: int) -> tuple[str, ...]:
        """One agent for each place in the pipeline; learners take turns in them."""
        if not config.shared:
            raise LudusError("pipelined_psro has one population; write population.shared: true, or scheduler: psro")
        return tuple(f"{name}_{place}" for place in range(config.pipeline))

    def assignments(self, view: View) -> tuple[Assignment, ...]:
        """The next part of every learner."""
        return tuple(self._part(view, number) for number in self._numbers(view))

    def is_frozen(self, view: View, done: Assignment) -> bool:
        """When it has had all of its steps."""
        return done.until >= view.steps

    def _numbers(self, view: View) -> range:
        """Learners are numbered from 0 in the order in which they are frozen; one is in each generation."""
        return range(view.generation, view.generation + view.config.pipeline)

    def _part(self, view: View, number: int) -> Assignment:
        pipeline = view.config.pipeline
        agent, begun = view.roster.agents[number % pipeline], max(0, number - pipeline + 1)
        # The first ones, which have fewer generations until their turn, do as many steps in each.
        parts = min(pipeline, number + 1)
        done = view.generation - begun + 1
        return Assignment(
            agent=agent,
            learner=f"{agent}-{number + 1}",
            generation=view.generation + 1,
            opponents=self._opponents(view, number),
            until=-(-view.steps * done // parts),
        )

    def _opponents(self, view: View, number: int) -> LineUps:
        """The meta-strategy of those who are frozen, and of learners below as they are now."""
        below = {f"{view.roster.agents[n % view.config.pipeline]}-{n + 1}" for n in self._numbers(view) if n < number}
        live = [recruit.ref for recruit in view.roster if recruit.learner in below and not recruit.frozen]
        newest = {str(ref.name): ref for ref in live}  # of each, what it was last
        allowed = [UNIFORM, *(recruit.ref for recruit in view.roster.frozen()), *newest.values()]
        places = [place for place, ref in enumerate(view.seats[0]) if ref in allowed]
        table = view.table[np.ix_(range(len(view.table)), *[places] * (view.table.ndim - 1))]
        joint = solve_joint(view.config.meta_solver, table, symmetric=True, **view.config.meta_options)
        return LineUps.of_others(
            zip((view.seats[0][place] for place in places), marginals(joint)[0].tolist(), strict=True)
        )


class SequentialLeague(Scheduler):
    """A league in turns, as Light-MALib's: the main agent answers the meta-strategy over everybody, then an exploiter
    answers the newest main agent alone, and so on. The main agent goes on from what it was; exploiters begin anew.
    """

    def agents(self, config: PopulationConfig, *, name: str, seats: int) -> tuple[str, ...]:
        """The policy, and who looks for its weaknesses."""
        if not config.shared:
            raise LudusError("sequential_league has one population; write population.shared: true")
        return name, f"{name}_exploiter"

    def assignments(self, view: View) -> tuple[Assignment, ...]:
        """Odd generations are the main agent's."""
        generation = view.generation + 1
        main, exploiter = view.roster.agents
        newest = view.roster.newest(main)
        begun = None if newest is None else newest.ref
        if generation % 2:
            opponents, agent, parent = answer_to(view, 0), main, begun
        else:
            opponents, agent, parent = LineUps.of_others([(begun or UNIFORM, 1.0)]), exploiter, None
        return (
            Assignment(
                agent=agent,
                learner=f"{agent}-{generation}",
                generation=generation,
                opponents=opponents,
                until=view.steps,
                begins_with=parent,
            ),
        )


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
