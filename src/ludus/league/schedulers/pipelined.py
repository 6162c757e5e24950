"""Pipelined PSRO (McAleer et al. 2020): several learners at once, each answering those below it as they are now.

In every generation each learner does its share of `train.steps`. The lowest has then had all of them: it is frozen, and
a new one begins on top. What a learner meets first is what is about to be frozen, so that it has not to begin anew
against it. Invariant: the order of learners is that of their numbers; the lowest answers frozen policies alone.
"""

from __future__ import annotations

from ludus.config import PopulationConfig
from ludus.errors import LudusError
from ludus.league.matchmaking.lineups import LineUps
from ludus.league.matchmaking.roster import UNIFORM
from ludus.league.payoffs.normal_form import Array, marginals
from ludus.league.schedulers.assignment import Assignment, View
from ludus.league.solvers import solve_joint
from ludus.records import PolicyRef


class PipelinedPsro:
    """`population.pipeline` learners of one population."""

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

    def is_over(self, view: View, done: Assignment) -> bool:
        """What is frozen does not learn any more."""
        return True

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
        strategy = marginals(self._solve(view, places))[0]
        chosen: list[PolicyRef] = [view.seats[0][place] for place in places]
        return LineUps.of_others(zip(chosen, strategy.tolist(), strict=True))

    def _solve(self, view: View, places: list[int]) -> Array:
        table = view.table
        for axis in range(1, table.ndim):
            table = table.take(places, axis=axis)
        return solve_joint(view.config.meta_solver, table, symmetric=True, **view.config.meta_options)
