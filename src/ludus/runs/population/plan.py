"""What a population's config says, taken apart once: its agents' configs, its scheduler, the runs of its learners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ludus.config import PopulationConfig, RunConfig, resolve
from ludus.errors import ConfigError
from ludus.league.schedulers import SCHEDULERS, Scheduler
from ludus.orchestrator import Playables, check_parts
from ludus.runs.population.kinds import check_kinds, find_lm_config, kind_configs
from ludus.runs.population.learner_runs import LearnerRuns, base_config
from ludus.runs.population.measures import check_meta_solver
from ludus.storage.run_directory import RunDirectory


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
    kinds, base = kind_configs(config), base_config(config)
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
        runs=LearnerRuns(config, run, plugins=plugins, strict_resume=strict_resume, lm_config=lm_config),
    )
