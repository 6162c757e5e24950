"""A run of a population: generations of learners, each an ordinary run, and the table of what they get.

Killing this at any moment costs what killing a learner's run costs: the population's own state is always on disk.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from ludus.config import RunConfig
from ludus.orchestrator import RunContext, RunStore, open_context
from ludus.plugins import load_plugins
from ludus.runs.driver import Driveable, Status
from ludus.runs.opening import open_pool
from ludus.runs.population.generations import Generations
from ludus.runs.population.learner_group import LearnerGroup
from ludus.runs.population.learner_runs import write_lm_config
from ludus.runs.population.matches import Matches
from ludus.runs.population.measures import Measures, PlayedMeasures
from ludus.runs.population.plan import make_plan
from ludus.runs.population.population_state import PopulationState
from ludus.runs.single import open_run_directory
from ludus.runtime import Stop
from ludus.storage.lock import RunLock
from ludus.storage.run_directory import RunDirectory
from ludus.telemetry import RoomReading, Sink, SinkStatus, attach_trackers, check_trackers


class PopulationRun(Driveable):
    """One population on one directory: `PopulationRun(config).run_to_end()`, or `start()` and drive it."""

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
        self.run = RunDirectory(Path(run_dir) if run_dir is not None else config.home)
        self._plan = make_plan(config, self.run, plugins=plugins, strict_resume=strict_resume)
        check_trackers(self.config)
        self._plugins, self._strict_resume, self._sinks = tuple(plugins), strict_resume, tuple(sinks)
        self._group = LearnerGroup(self.controls)
        self._context: RunContext | None = None
        self._generations: Generations | None = None

    @property
    def config(self) -> RunConfig:
        """The config of the whole population."""
        return self._plan.config

    def status(self) -> Status:
        """What the run is doing now."""
        context, generations, inner = self._context, self._generations, self._group.statuses()
        learning = ", ".join(self._group.names) or "measuring"
        metrics = {} if context is None else dict(context.telemetry.latest)
        return Status(
            stage=self.controls.activity,
            run=self.config.name,
            run_dir=str(self.run.path),
            stage_name="" if self.controls.is_over or context is None else learning,
            update=0 if generations is None else generations.commits,
            steps=0 if generations is None else generations.state.generation,
            total_steps=self._plan.population.stop.generations,
            episodes=sum(status.episodes for status in inner),
            version=0 if generations is None else len(generations.state.roster),
            elapsed_s=time.monotonic() - self._began,
            error=self._failure,
            metrics={**metrics, "psro/learner_steps": float(sum(status.steps for status in inner))},
        )

    def sinks(self) -> tuple[SinkStatus, ...]:
        """Where metrics go besides the run's own files, and what was lost on the way."""
        return () if self._context is None else self._context.telemetry.sinks_status()

    def room_readings(self) -> dict[str, RoomReading]:
        """What each room has done since this start, of the population and of those who learn now."""
        return self._group.room_readings({} if self._context is None else self._context.telemetry.meters.read())

    def checkpoint(self, timeout_s: float = 60.0) -> Status:
        """Save the state of everybody who learns after the current update; the population's own is always on disk."""
        self._group.checkpoint(timeout_s)
        return self.status()

    def _ask(self, *, paused: bool | None = None, stopping: bool = False, checkpoint: bool = False) -> Status:
        super()._ask(paused=paused, stopping=stopping)
        self._group.pass_on()
        return self.status()

    def _work(self) -> None:
        plan = self._plan
        self.run.prepare()
        with RunLock(self.run.path):
            open_run_directory(self.run, self.config)
            write_lm_config(self.run, plan.lm_config)
            store = RunStore(plan.base, self.run)
            context = open_context(plan.base, plan.playables, self.run, self.run.new_attempt(), self._plugins)
            self._context = context
            try:
                attach_trackers(context.telemetry, self.config, self.run, self._sinks)
                self._go_through_generations(context, store)
            except BaseException as error:
                context.telemetry.event("failed", error=f"{type(error).__name__}: {error}")
                raise
            finally:
                context.supervisor.stop(Stop())
                context.telemetry.close()
                store.close()

    def _go_through_generations(self, context: RunContext, store: RunStore) -> None:
        """Resume from the newest whole checkpoint, or begin with the uniform player."""
        (spec,) = context.specs.values()
        plan, pool = self._plan, open_pool(self._plan.base, self.run)
        saved = store.checkpoints.latest(strict=self._strict_resume)
        if saved is None:
            agents = plan.scheduler.agents(plan.population, name=self.config.policy.name, seats=len(spec.sides))
            state = PopulationState.begin(agents, spec, shared=plan.population.shared)
        else:
            state = PopulationState.from_json(saved.state["population"])
            pool.load_state(saved.state["league"])
            state.is_finished = False
        matches = Matches(context, pool, lambda: self.is_stopping)
        self._generations = Generations(
            plan,
            context,
            store,
            pool,
            self._make_measures(context, store, matches),
            self.controls,
            self._group,
            state,
            commits=0 if saved is None else saved.update,
        )
        context.telemetry.event("started", resumed=saved is not None, generation=state.generation)
        self._generations.run(is_new=saved is None)

    def _make_measures(self, context: RunContext, store: RunStore, matches: Matches) -> Measures:
        """Exact where it can be, or where it is asked for."""
        (spec,) = context.specs.values()
        population = self._plan.population
        is_small = bool(spec.tree) and context.config.topology == "fused"
        can_be_exact = is_small and spec.players == 2 and spec.is_zero_sum and population.scheduler != "league"
        if (population.payoffs.kind or ("exact" if can_be_exact else "played")) == "played":
            return PlayedMeasures(matches, population)
        from ludus.runs.population.exact_measures import ExactMeasures

        return ExactMeasures(spec.tree, store.policies)
