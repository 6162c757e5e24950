"""A run of a population: generations of learners, each an ordinary run, and the table of what they get.

Killing this at any moment costs what killing a learner's run costs: the population's own state is always on disk.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ludus.config import PopulationConfig, RunConfig, resolve
from ludus.errors import ConfigError
from ludus.league import Pool
from ludus.league.schedulers import SCHEDULERS, Scheduler
from ludus.orchestrator import Playables, RunContext, RunStore, check_parts
from ludus.runs.driver import Status
from ludus.runs.opening import open_pool
from ludus.runs.population.generations import Generations
from ludus.runs.population.learner_runs import LearnerGroup, LearnerRuns, agent_config
from ludus.runs.population.measures import Matches, Measures, check_meta_solver
from ludus.runs.population.population_state import PopulationState
from ludus.runs.single import DirectoryRun
from ludus.storage.run_directory import RunDirectory
from ludus.telemetry import RoomReading, check_trackers


@dataclass(frozen=True, slots=True, kw_only=True)
class PopulationPlan:
    """Fixed for one start."""

    config: RunConfig
    population: PopulationConfig
    base: RunConfig
    """That of the population's own tables, matches and policies."""
    kinds: Mapping[str, RunConfig]
    """By agent."""
    playables: Playables
    lm_config: RunConfig | None
    """The config that language models sample by, where there are any."""
    scheduler: Scheduler
    runs: LearnerRuns


def make_plan(config: RunConfig, run: RunDirectory, *, plugins: Sequence[str], strict_resume: bool) -> PopulationPlan:
    """Check all parts of a population.

    Raises:
        ConfigError: the config has no population that learns, or parts of it do not fit together.
    """
    population = config.population
    if population is None or population.oracle != "learned":
        raise ConfigError("population: there is none that learns; run it with SingleRun (or make_run)")
    resolved = resolve(config)
    kinds, base = kind_configs(config), agent_config(config, config.policy.name, has_start=False)
    playables = check_parts(base, run)
    check_kinds(kinds, population, run)
    for spec in playables.game_specs.values():
        check_meta_solver(population, spec)
    lm_config = find_lm_config(kinds)
    return PopulationPlan(
        config=resolved,
        population=population,
        base=base,
        kinds=kinds,
        playables=playables,
        lm_config=lm_config,
        scheduler=SCHEDULERS[population.scheduler](),
        runs=LearnerRuns(config=config, run=run, plugins=plugins, strict_resume=strict_resume, lm_config=lm_config),
    )


def kind_configs(config: RunConfig) -> dict[str, RunConfig]:
    """The config of each kind of learner, by agent; the policy of the run itself comes first.

    Raises:
        ConfigError: what a kind changes makes no config of a run.
    """
    population = config.population or PopulationConfig()
    is_pretrained = population.initialise == "pretrained"
    found = {config.policy.name: agent_config(config, config.policy.name, has_start=is_pretrained)}
    for agent in population.learners:
        try:
            found[agent] = agent_config(config, agent, has_start=True)
        except ConfigError as error:
            raise ConfigError(*(f"population.learners.{agent}: {line}" for line in error.problems)) from error
    return found


def check_kinds(kinds: Mapping[str, RunConfig], population: PopulationConfig, run: RunDirectory) -> None:
    """See to it that the parts of further kinds exist, and that all kinds can meet.

    Raises:
        ConfigError: one line for each part that does not exist or fit.
    """
    problems: list[str] = []
    for agent, config in list(kinds.items())[1:]:
        try:
            check_parts(config, run)
        except ConfigError as error:
            problems += (f"population.learners.{agent}: {line}" for line in error.problems)
    if find_lm_config(kinds) is not None:
        problems += [*_cannot_meet(kinds, population)]
    if problems:
        raise ConfigError(*problems)


def find_lm_config(kinds: Mapping[str, RunConfig]) -> RunConfig | None:
    """The config that the language models of a population speak by; None if there are none."""
    return next((config for config in kinds.values() if config.policy.model is not None), None)


def _cannot_meet(kinds: Mapping[str, RunConfig], population: PopulationConfig) -> Iterator[str]:
    if population.payoffs.kind == "exact":
        yield "population.payoffs.kind: what a language model does is not known exactly; write played"
    speaking = {agent: config for agent, config in kinds.items() if config.policy.model is not None}
    first, *others = speaking
    for agent in others:
        for key in _differences(speaking[first], speaking[agent]):
            yield f"population.learners.{agent}: {key}: is another than that of {first}; language models share it"
    for agent, config in kinds.items():
        if config.topology != "split":
            yield f"topology: {agent} learns in {config.topology}, where no language model can sit; write split"


def _differences(one: RunConfig, other: RunConfig) -> Iterator[str]:
    if one.policy.model != other.policy.model:
        yield "policy.model"
    if (one.policy.start or "").partition("@")[0] != (other.policy.start or "").partition("@")[0]:
        yield "policy.start"
    for key in ("prompt", "sampling", "engine", "endpoints"):
        if getattr(one.explore, key) != getattr(other.explore, key):
            yield f"explore.{key}"


class PopulationRun(DirectoryRun):
    """One population on one directory: `PopulationRun(config).run_to_end()`, or `start()` and drive it."""

    _generations: Generations | None = None

    def _check(self, config: RunConfig, path: Path) -> None:
        self.run = RunDirectory(path)
        self._plan = make_plan(config, self.run, plugins=self._plugins, strict_resume=self._strict_resume)
        self.config = self._plan.config
        check_trackers(self.config)
        self._group = LearnerGroup(self.controls)

    def status(self) -> Status:
        """What the run is doing now."""
        context, generations, inner = self._context, self._generations, self._group.statuses()
        learning = ", ".join(self._group.names) or "measuring"
        metrics = {} if context is None else dict(context.telemetry.latest)
        return Status(
            stage=self.controls.shown,
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
            silent_workers=tuple(name for status in inner for name in status.silent_workers)
            + (() if context is None else context.supervisor.silent),
            workers=(() if context is None else context.supervisor.read()) + self._group.workers(),
            nodes=() if context is None else context.launcher.nodes(),
            metrics={**metrics, "psro/learner_steps": float(sum(status.steps for status in inner))},
        )

    def room_readings(self) -> dict[str, RoomReading]:
        """What each room has done since this start, of the population and of those who learn now."""
        return self._group.room_readings(super().room_readings())

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
        with self._opened(plan.base, plan.playables, plan.lm_config, grace_s=5.0) as (context, store):
            self._go_through_generations(context, store)

    def _go_through_generations(self, context: RunContext, store: RunStore) -> None:
        """Resume from the newest whole checkpoint, or begin with the uniform player."""
        (spec,) = context.specs.values()
        self._group.launcher = context.launcher
        plan, pool = self._plan, open_pool(self._plan.base, self.run)
        saved = store.resume_point(strict=self._strict_resume)
        if saved is None:
            agents = plan.scheduler.agents(plan.population, name=self.config.policy.name, seats=len(spec.sides))
            state = PopulationState.begin(agents, spec, shared=plan.population.shared)
        else:
            state = PopulationState.from_json(saved.state["population"])
            pool.load_state(saved.state["league"])
        self._generations = Generations(
            plan,
            context.telemetry,
            store,
            pool,
            self._make_measures(context, store, pool),
            self.controls,
            self._group,
            state,
            commits=0 if saved is None else saved.update,
        )
        context.telemetry.event("started", resumed=saved is not None, generation=state.generation)
        self._generations.run(is_new=saved is None)

    def _make_measures(self, context: RunContext, store: RunStore, pool: Pool) -> Measures:
        """Exact where it can be, or where it is asked for."""
        (spec,) = context.specs.values()
        population = self._plan.population
        is_small = bool(spec.tree) and context.config.topology == "fused"
        can_be_exact = is_small and spec.players == 2 and spec.is_zero_sum and population.scheduler != "league"
        if (population.payoffs.kind or ("exact" if can_be_exact else "played")) == "played":
            return Matches(context, pool, population, lambda: self.is_stopping)
        from ludus.runs.population.exact_measures import ExactMeasures

        return ExactMeasures(spec.tree, store.policies)
