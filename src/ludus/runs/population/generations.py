"""The generations of a population that learns.

A generation: the scheduler says who learns against whom; the learners learn; what they have become joins; the table is
completed; the meta-strategy is solved again. Invariant: everything between two steps is in `PopulationState` and saved
as one checkpoint, and every step is a function of it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ludus.league import Pool
from ludus.league.matchmaking.population import UNIFORM, Recruit, label
from ludus.league.schedulers import Assignment, Learner, View
from ludus.orchestrator import RunStore
from ludus.records import PolicyRef
from ludus.runs.driver import Controls
from ludus.runs.population.learner_runs import LearnerGroup, LearnerNews
from ludus.runs.population.learners_at_once import learners_at_once
from ludus.runs.population.measures import Measures, shares_by_seat, solve_meta_strategy
from ludus.runs.population.population_state import PopulationState, reason_to_stop
from ludus.telemetry import Telemetry

if TYPE_CHECKING:
    from ludus.runs.population.population_run import PopulationPlan

FORGETTING = 0.5
"""How much a learner's earlier games count after it has learnt on."""
KEPT = 8
"""Of what an agent's learners were in passing, so many stay on disk: a resume may go back behind a damaged save."""


@dataclass(slots=True, eq=False)
class Generations:
    """The loop over generations, on one directory."""

    plan: PopulationPlan
    telemetry: Telemetry
    store: RunStore
    pool: Pool
    measures: Measures
    controls: Controls
    group: LearnerGroup
    state: PopulationState
    commits: int
    """Checkpoints that have been saved."""
    cpu_began: float = field(default_factory=lambda: _cpu_s())

    def run(self, *, is_new: bool) -> None:
        """Go through generations until a stopping rule holds or somebody asks to stop."""
        if is_new:
            self._conclude()
        self.controls.enter("training")
        state, controls = self.state, self.controls
        while not controls.is_stopping and not self._reason:
            self._wait_while_held()
            assignments = state.assignments or self.plan.scheduler.assignments(self._view())
            if not assignments:
                break
            state.assignments = assignments
            if not self._learn(assignments):
                break
            controls.enter("evaluating")
            if not self.measures.fill(state):
                # Half of what was to be measured is nothing: the same matches are played again after a resume.
                self.telemetry.event("ended", stopped=True, generation=state.generation)
                return
            self._freeze(assignments)
            state.generation += 1
            state.assignments, state.done = (), []
            self._conclude()
            controls.enter("training")
        if not controls.is_stopping:
            reason = self._reason or "nobody has steps left to learn (train.steps)"
            self.telemetry.event("population_done", generation=state.generation, reason=reason)
        self._commit(is_finished=not controls.is_stopping)
        self.telemetry.event("ended", stopped=controls.is_stopping, generation=state.generation)

    @property
    def _reason(self) -> str:
        return reason_to_stop(self.state, self.plan.population.stop)

    @property
    def _most_at_once(self) -> int:
        launcher = self.group.launcher
        plays = not self.measures.is_exact
        return 1 if launcher is None else learners_at_once(self.plan.base, launcher, matches=plays)

    def _wait_while_held(self) -> None:
        """Between generations; learners hold by themselves."""
        if self.controls.is_held:
            self.controls.enter("paused")
            self.controls.wait_while_held()
            self.controls.enter("training")

    def _learn(self, assignments: Sequence[Assignment]) -> bool:
        """Let everybody learn who has not yet; returns False when the run was stopped before all were done."""
        state = self.state
        waiting = [assignment for assignment in assignments if assignment.learner not in state.done]
        at_once = self.plan.population.at_once or self._most_at_once
        for start in range(0, len(waiting), at_once):
            group = waiting[start : start + at_once]
            for assignment in group:
                self.telemetry.event("assignment", **assignment.to_json())
            news = {each.learner: LearnerNews(self.telemetry, each.agent, state.steps) for each in group}
            self.group.run({each.learner: self.plan.runs.open(each, [news[each.learner]]) for each in group})
            if self.controls.is_stopping:
                return False
            for assignment in group:
                self._take_in(assignment)
            self._commit()
        return True

    def _take_in(self, assignment: Assignment) -> None:
        """Let what a learner has become join, for the time being."""
        state = self.state
        agent, policy = assignment.agent, self.plan.runs.result(assignment.learner)
        before, newest = state.learners.get(agent), state.roster.newest(agent)
        is_same = before is not None and before.name == assignment.learner
        ref = state.roster.next_ref(agent)
        digest = self.store.publish(ref, policy.weights, policy.shape, step=policy.step)
        parent = newest.ref if is_same and newest is not None else assignment.begins_with
        state.roster.add(
            Recruit(
                ref=ref,
                agent=agent,
                generation=assignment.generation,
                learner=assignment.learner,
                parent=parent,
                steps=policy.step,
                frozen=False,
            )
        )
        state.steps += policy.step - (before.steps if is_same and before is not None else 0)
        frozen_at = before.frozen_at if is_same and before is not None else 0
        state.learners[agent] = Learner(name=assignment.learner, agent=agent, steps=policy.step, frozen_at=frozen_at)
        state.done.append(assignment.learner)
        state.book.age(agent, FORGETTING)
        if self.plan.population.scheduler != "league":
            self._enter_table(ref, agent)
        self.telemetry.event("joined", policy=str(ref), learner=assignment.learner, weights_hash=digest)

    def _enter_table(self, ref: PolicyRef, agent: str) -> None:
        state = self.state
        state.table.add_policy(label(ref), 0 if state.table.symmetric else state.roster.agents.index(agent))

    def _freeze(self, assignments: Sequence[Assignment]) -> None:
        """Let those belong for good whom the scheduler wants; the learners of some of them are done with."""
        state, view = self.state, self._view()
        for assignment in assignments:
            newest = state.roster.newest(assignment.agent)
            if newest is None or not self.plan.scheduler.is_frozen(view, assignment):
                continue
            is_over = self.plan.scheduler.is_over(view, assignment)
            state.roster.freeze(newest.ref)
            self.pool.add_snapshot(newest.ref, state.steps)
            if self.plan.population.scheduler == "league":
                self._enter_table(newest.ref, assignment.agent)
                state.book.copy(assignment.agent, label(newest.ref))
            self.telemetry.event("frozen", policy=str(newest.ref), learner=assignment.learner, goes_on=not is_over)
            if is_over:
                del state.learners[assignment.agent]
                state.book.forget(assignment.agent)
            else:
                state.learners[assignment.agent].frozen_at = state.learners[assignment.agent].steps

    def _conclude(self) -> None:
        """Solve the table, measure, and save."""
        state = self.state
        exploitability: dict[str, float] = {}
        if not self.measures.is_exact:
            exploitability = self.measures.exploitability(state)
        state.joint = solve_meta_strategy(state, self.plan.population)
        if self.measures.is_exact:
            exploitability = self.measures.exploitability(state)
        shares = shares_by_seat(state)
        metrics = {
            **exploitability,
            "psro/policies": float(len(state.roster.frozen())),
            "psro/support": float(sum(len(seat) for seat in shares)),
            "psro/matches": float(self.pool.match_count),
            "psro/steps": float(state.steps),
            "psro/cpu_s": state.cpu_s + _cpu_s() - self.cpu_began,
        }
        state.history.append({"generation": state.generation, "shares": shares, "metrics": metrics})
        self.telemetry.metrics(state.generation, metrics)
        self._commit()
        self._clear_away()

    def _clear_away(self) -> None:
        """Remove what nobody needs any more: runs of learners that are done, and what learners were in passing."""
        state = self.state
        self.plan.runs.discard(keep={learner.name for learner in state.learners.values()})
        for agent in state.roster.agents:
            policies = state.roster.of(agent)
            kept = {recruit.ref for recruit in policies if recruit.frozen} | {each.ref for each in policies[-KEPT:]}
            self.store.policies.prune(agent, kept)

    def _view(self) -> View:
        plan, state = self.plan, self.state
        players = [name for choice in plan.config.league.opponents for name in choice.players]
        return View(
            config=plan.population,
            steps=plan.base.train.steps or 0,
            steps_of={agent: config.train.steps or 0 for agent, config in plan.kinds.items()},
            seed=plan.config.seed,
            generation=state.generation,
            roster=state.roster,
            seats=state.seats,
            table=state.table.mean(),
            joint=state.joint,
            learners=state.learners,
            book=state.book,
            fixed=tuple(PolicyRef.parse(name) for name in players) or (UNIFORM,),
        )

    def _commit(self, *, is_finished: bool = False) -> None:
        """Save everything as one manifest."""
        state, store, pool = self.state, self.store, self.pool
        self.commits += 1
        now = _cpu_s()
        state.cpu_s, self.cpu_began = state.cpu_s + now - self.cpu_began, now
        staging = store.checkpoints.stage(self.commits)
        population = {**state.to_json(), "is_finished": is_finished}
        saved = store.checkpoints.commit(staging, self.commits, {"population": population, "league": pool.state()})
        with store.catalog.transaction(durable=False):
            store.catalog.add_checkpoint(saved.update, saved.sha256)
            counters = {"update": self.commits, "steps": state.steps, "episodes": pool.match_count}
            store.catalog.set_cursor("progress", counters)
            pool.write(store.catalog)


def _cpu_s() -> float:
    """CPU time of this process and of those that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
