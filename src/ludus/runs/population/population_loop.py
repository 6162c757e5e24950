"""A run of a population: generations of learners, each an ordinary run, and the table of what they get.

A generation: the scheduler says who learns against whom; the learners learn; what they have become joins; the table is
completed; the meta-strategy is solved again. Invariant: everything between two steps is in `PopulationState` and saved
as one checkpoint, and every step is a function of it; killing this at any moment costs what killing a learner's run
costs.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ludus.config import RunConfig, resolve
from ludus.errors import ConfigError
from ludus.league.matchmaking.roster import UNIFORM, Recruit, label
from ludus.league.schedulers import SCHEDULERS, Assignment, Learner, View
from ludus.loop import Loop, open_run_directory
from ludus.orchestrator import Rooms, check_parts, open_rooms
from ludus.plugins import load_plugins
from ludus.records import PolicyRef
from ludus.runs.driver import Driveable, Status
from ludus.runs.population.kinds import check_kinds, find_voice, kind_configs
from ludus.runs.population.learner_news import LearnerNews
from ludus.runs.population.learner_runs import LearnerRuns, base_config, write_voice
from ludus.runs.population.measures import (
    Measures,
    PlayedMeasures,
    check_meta_solver,
    shares_by_seat,
    solve_meta_strategy,
)
from ludus.runs.population.population_state import PopulationState
from ludus.runs.population.stopping import reason_to_stop
from ludus.runtime import Stop
from ludus.storage.lock import RunLock
from ludus.storage.run_directory import RunDirectory
from ludus.telemetry import RoomReading, Sink, SinkStatus, added_up, attach_trackers, check_trackers

log = logging.getLogger(__name__)

FORGETTING = 0.5
"""How much a learner's earlier games count after it has learnt on."""
KEPT = 8
"""Of what an agent's learners were in passing, so many stay on disk: a resume may go back behind a damaged save."""


class PopulationLoop(Driveable):
    """One population on one directory: `PopulationLoop(config).run_to_end()`, or `start()` and drive it."""

    def __init__(
        self,
        config: RunConfig,
        run_dir: Path | str | None = None,
        *,
        plugins: Sequence[str] = (),
        strict_resume: bool = False,
        sinks: Sequence[Sink] = (),
    ) -> None:
        super().__init__()
        load_plugins(plugins)
        if config.population is None or config.population.oracle != "learned":
            raise ConfigError("population: there is none that learns; run it with Loop (or make_loop)")
        self.config = resolve(config)
        check_trackers(self.config)
        self._population = config.population
        self.run = RunDirectory(Path(run_dir) if run_dir is not None else config.home)
        self._kinds = kind_configs(config)
        self._base = base_config(config)
        self._games = check_parts(self._base, self.run)
        check_kinds(self._kinds, config.population, self.run)
        for spec in self._games.game_specs.values():
            check_meta_solver(config.population, spec)
        self._voice = find_voice(self._kinds)
        self._scheduler = SCHEDULERS[config.population.scheduler]()
        self._runs = LearnerRuns(config, self.run, plugins=plugins, strict_resume=strict_resume, voice=self._voice)
        self._plugins, self._strict_resume, self._sinks = tuple(plugins), strict_resume, tuple(sinks)
        self._rooms: Rooms | None = None
        self._state: PopulationState | None = None
        self._loops: dict[str, Loop] = {}
        self._measures: Measures | None = None
        self._learnt: dict[str, RoomReading] = {}
        self._commits = 0
        self._cpu_began = 0.0

    def status(self) -> Status:
        """What the run is doing now."""
        rooms, state = self._rooms, self._state
        learning = ", ".join(self._loops) or "measuring"
        inner = [loop.status() for loop in self._loops.values()]
        metrics = {} if rooms is None else dict(rooms.telemetry.latest)
        return Status(
            stage=self._stage,
            run=self.config.name,
            run_dir=str(self.run.path),
            stage_name="" if self._is_over or rooms is None else learning,
            update=self._commits,
            steps=0 if state is None else state.generation,
            total_steps=self._population.stop.generations,
            episodes=sum(status.episodes for status in inner),
            version=0 if state is None else len(state.roster),
            elapsed_s=time.monotonic() - self._began,
            error="" if self._error is None else f"{type(self._error).__name__}: {self._error}",
            metrics={**metrics, "psro/learner_steps": float(sum(status.steps for status in inner))},
        )

    def sinks(self) -> tuple[SinkStatus, ...]:
        """Where metrics go besides the run's own files, and what was lost on the way."""
        return () if self._rooms is None else self._rooms.telemetry.sinks_status()

    def room_readings(self) -> dict[str, RoomReading]:
        """What each room has done since this start, of the population and of those who learn now."""
        own = {} if self._rooms is None else self._rooms.telemetry.meters.read()
        return added_up([self._learnt, own, *(loop.room_readings() for loop in list(self._loops.values()))])

    def checkpoint(self, timeout_s: float = 60.0) -> Status:
        """Save the state of everybody who learns after the current update; the population's own is always on disk."""
        for loop in list(self._loops.values()):
            loop.checkpoint(timeout_s)
        return self.status()

    def _ask(self, *, paused: bool | None = None, stopping: bool = False, checkpoint: bool = False) -> Status:
        super()._ask(paused=paused, stopping=stopping)
        for loop in list(self._loops.values()):
            self._pass_on(loop)
        return self.status()

    # -- the run ---------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        self.run.prepare()
        with RunLock(self.run.path):
            open_run_directory(self.run, self.config)
            write_voice(self.run, self._voice)
            rooms = open_rooms(self._base, self._games, self.run, self.run.new_attempt(), self._plugins)
            self._rooms, self._cpu_began = rooms, _cpu_s()
            try:
                attach_trackers(rooms.telemetry, self.config, self.run, self._sinks)
                self._generations(rooms, self._begin(rooms))
            except BaseException as error:
                rooms.telemetry.event("failed", error=f"{type(error).__name__}: {error}")
                raise
            finally:
                rooms.supervisor.stop(Stop())
                rooms.close()

    def _begin(self, rooms: Rooms) -> PopulationState:
        """Go on from the newest whole checkpoint, or begin with the uniform player."""
        (spec,) = rooms.specs.values()
        population = self._population
        agents = self._scheduler.agents(population, name=self.config.policy.name, seats=len(spec.sides))
        saved = rooms.checkpoints.latest(strict=self._strict_resume)
        if saved is None:
            state = PopulationState.begin(agents, spec, shared=population.shared)
        else:
            state, self._commits = PopulationState.from_json(saved.state["population"]), saved.update
            rooms.pool.load_state(saved.state["league"])
            state.is_finished = False
        self._state = state
        self._measures = self._make_measures(rooms)
        rooms.telemetry.event("started", resumed=saved is not None, generation=state.generation)
        if saved is None:
            self._conclude_generation(rooms, state)
        return state

    def _make_measures(self, rooms: Rooms) -> Measures:
        """Exact where it can be, or where it is asked for."""
        (key,) = rooms.games
        population, spec = self._population, rooms.specs[key]
        is_small = bool(spec.tree) and rooms.config.topology == "fused"
        can_be_exact = is_small and spec.players == 2 and spec.is_zero_sum and population.scheduler != "league"
        if (population.payoffs.kind or ("exact" if can_be_exact else "played")) == "played":
            return PlayedMeasures(rooms, population, lambda: self._stopping)
        from ludus.runs.population.exact_measures import ExactMeasures

        return ExactMeasures(spec.tree, rooms.policies)

    def _generations(self, rooms: Rooms, state: PopulationState) -> None:
        self._enter("training")
        while not self._stopping and not self._reason_to_stop(state):
            self._wait_while_held()
            assignments = state.assignments or self._scheduler.assignments(self._view(rooms, state))
            if not assignments:
                break
            state.assignments = assignments
            if not self._learn(rooms, state, assignments):
                break
            self._enter("evaluating")
            if not self._measuring.fill(state):
                # Half of what was to be measured is nothing: the same matches are played again after a resume.
                rooms.telemetry.event("ended", stopped=True, generation=state.generation)
                return
            self._freeze(rooms, state, assignments)
            state.generation += 1
            state.assignments, state.done = (), []
            self._conclude_generation(rooms, state)
            self._enter("training")
        if not self._stopping:
            state.is_finished = True
            reason = self._reason_to_stop(state) or "nobody has steps left to learn (train.steps)"
            rooms.telemetry.event("population_done", generation=state.generation, reason=reason)
        self._commit(rooms, state)
        rooms.telemetry.event("ended", stopped=self._stopping, generation=state.generation)

    def _wait_while_held(self) -> None:
        """Between generations; learners hold by themselves."""
        if self._is_held():
            self._enter("paused")
            with self._wake:
                self._wake.wait_for(lambda: not self._is_held())
            self._enter("training")

    # -- the parts of a generation -----------------------------------------------------------------------------------

    def _learn(self, rooms: Rooms, state: PopulationState, assignments: Sequence[Assignment]) -> bool:
        """Let everybody learn who has not yet; returns False when the run was stopped before all were done."""
        waiting = [assignment for assignment in assignments if assignment.learner not in state.done]
        at_once = self._population.at_once or _at_once(self._base)
        for start in range(0, len(waiting), at_once):
            group = waiting[start : start + at_once]
            for assignment in group:
                rooms.telemetry.event("assignment", **assignment.to_json())
            self._run_learners(rooms, state, group)
            if self._stopping:
                return False
            for assignment in group:
                self._take_in(rooms, state, assignment)
            self._commit(rooms, state)
        return True

    def _run_learners(self, rooms: Rooms, state: PopulationState, group: Sequence[Assignment]) -> None:
        """Run the learners of a group to the end of their parts, all at once; the first failure ends the others."""
        loops = {
            assignment.learner: self._runs.open(assignment, [LearnerNews(rooms.telemetry, assignment, state.steps)])
            for assignment in group
        }
        self._loops = loops
        try:
            for loop in loops.values():
                loop.start()
                self._pass_on(loop)
            for loop in loops.values():
                loop.wait()
        finally:
            self._end(loops)

    def _end(self, loops: Mapping[str, Loop]) -> None:
        """See to it that nobody learns on: after a failure the others stop, too, and leave a state to resume from."""
        for loop in loops.values():
            loop.stop()
        for name, loop in loops.items():
            try:
                loop.wait()
            except Exception as error:
                log.warning("learner %s failed: %s", name, error)
        self._learnt = added_up([self._learnt, *(loop.room_readings() for loop in loops.values())])
        self._loops = {}

    def _take_in(self, rooms: Rooms, state: PopulationState, assignment: Assignment) -> None:
        """Let what a learner has become join, for the time being."""
        agent, policy = assignment.agent, self._runs.result(assignment.learner)
        before, newest = state.learners.get(agent), state.roster.newest(agent)
        is_same = before is not None and before.name == assignment.learner
        ref = state.roster.next_ref(agent)
        digest = rooms.policies.publish(ref, policy.weights, policy.shape, step=policy.step)
        with rooms.catalog.transaction(durable=False):
            rooms.catalog.add_policy(ref, weights_hash=digest)
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
        if self._population.scheduler != "league":
            self._enter_table(state, ref, agent)
        rooms.telemetry.event("joined", policy=str(ref), learner=assignment.learner, weights_hash=digest)

    def _enter_table(self, state: PopulationState, ref: PolicyRef, agent: str) -> None:
        state.table.add_policy(label(ref), 0 if state.table.symmetric else state.roster.agents.index(agent))

    def _freeze(self, rooms: Rooms, state: PopulationState, assignments: Sequence[Assignment]) -> None:
        """Let those belong for good whom the scheduler wants; the learners of some of them are done with."""
        view = self._view(rooms, state)
        for assignment in assignments:
            newest = state.roster.newest(assignment.agent)
            if newest is None or not self._scheduler.is_frozen(view, assignment):
                continue
            is_over = self._scheduler.is_over(view, assignment)
            state.roster.freeze(newest.ref)
            rooms.pool.add_snapshot(newest.ref, state.steps)
            if self._population.scheduler == "league":
                self._enter_table(state, newest.ref, assignment.agent)
                state.book.copy(assignment.agent, label(newest.ref))
            rooms.telemetry.event("frozen", policy=str(newest.ref), learner=assignment.learner, goes_on=not is_over)
            if is_over:
                del state.learners[assignment.agent]
                state.book.forget(assignment.agent)
            else:
                state.learners[assignment.agent].frozen_at = state.learners[assignment.agent].steps

    def _conclude_generation(self, rooms: Rooms, state: PopulationState) -> None:
        """Solve the table, measure, and save."""
        exploitability: dict[str, float] = {}
        if not self._measuring.is_exact:
            exploitability = self._measuring.exploitability(state)
        state.joint = solve_meta_strategy(state, self._population)
        if self._measuring.is_exact:
            exploitability = self._measuring.exploitability(state)
        shares = shares_by_seat(state)
        metrics = {
            **exploitability,
            "psro/policies": float(len(state.roster.frozen())),
            "psro/support": float(sum(len(seat) for seat in shares)),
            "psro/matches": float(rooms.pool.match_count),
            "psro/steps": float(state.steps),
            "psro/cpu_s": state.cpu_s + _cpu_s() - self._cpu_began,
        }
        state.history.append({"generation": state.generation, "shares": shares, "metrics": metrics})
        rooms.telemetry.metrics(state.generation, metrics)
        self._commit(rooms, state)
        self._clear_away(rooms, state)

    def _clear_away(self, rooms: Rooms, state: PopulationState) -> None:
        """Remove what nobody needs any more: runs of learners that are done, and what learners were in passing."""
        self._runs.discard(keep={learner.name for learner in state.learners.values()})
        for agent in state.roster.agents:
            policies = state.roster.of(agent)
            kept = {recruit.ref for recruit in policies if recruit.frozen} | {each.ref for each in policies[-KEPT:]}
            rooms.policies.prune(agent, kept)

    # -- what the parts need -----------------------------------------------------------------------------------------

    @property
    def _measuring(self) -> Measures:
        if self._measures is None:
            raise RuntimeError("the run has not begun")
        return self._measures

    def _view(self, rooms: Rooms, state: PopulationState) -> View:
        players = [name for choice in self.config.league.opponents for name in choice.players]
        return View(
            config=self._population,
            steps=self._base.train.steps,
            steps_of={agent: config.train.steps for agent, config in self._kinds.items()},
            seed=self.config.seed,
            generation=state.generation,
            roster=state.roster,
            seats=state.seats,
            table=state.table.mean(),
            joint=state.joint,
            learners=state.learners,
            book=state.book,
            fixed=tuple(PolicyRef.parse(name) for name in players) or (UNIFORM,),
        )

    def _reason_to_stop(self, state: PopulationState) -> str:
        return reason_to_stop(state, self._population.stop)

    def _commit(self, rooms: Rooms, state: PopulationState) -> None:
        """Save everything as one manifest."""
        self._commits += 1
        now = _cpu_s()
        state.cpu_s, self._cpu_began = state.cpu_s + now - self._cpu_began, now
        staging = rooms.checkpoints.stage(self._commits)
        saved = rooms.checkpoints.commit(
            staging, self._commits, {"population": state.to_json(), "league": rooms.pool.state()}
        )
        with rooms.catalog.transaction(durable=False):
            rooms.catalog.add_checkpoint(saved.update, saved.sha256)
            counters = {"update": self._commits, "steps": state.steps, "episodes": rooms.pool.match_count}
            rooms.catalog.set_cursor("progress", counters)
            rooms.pool.write(rooms.catalog)


def _cpu_s() -> float:
    """CPU time of this process and of those that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _at_once(config: RunConfig) -> int:
    """Learners in one process share its cores; those that are several processes take turns."""
    return max(1, len(os.sched_getaffinity(0))) if config.topology == "fused" else 1
