"""The kinds of learners of a population: what each of them is, and whether they can meet.

Invariant: the language models of a population stand on one model and talk in one way, so that one engine speaks for all
of them wherever they play; and where they meet networks, all of them play in explorers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ludus.config import PopulationConfig, RunConfig
from ludus.errors import ConfigError
from ludus.orchestrator import check_parts
from ludus.runs.population.learner_runs import agent_config
from ludus.storage.run_directory import RunDirectory


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
    problems = [*_missing_parts(list(kinds.items())[1:], run)]
    if find_lm_config(kinds) is not None:
        problems += [*_cannot_meet(kinds, population)]
    if problems:
        raise ConfigError(*problems)


def find_lm_config(kinds: Mapping[str, RunConfig]) -> RunConfig | None:
    """The config that the language models of a population speak by; None if there are none."""
    return next((config for config in kinds.values() if config.policy.model is not None), None)


def _missing_parts(kinds: list[tuple[str, RunConfig]], run: RunDirectory) -> Iterator[str]:
    for agent, config in kinds:
        try:
            check_parts(config, run)
        except ConfigError as error:
            yield from (f"population.learners.{agent}: {line}" for line in error.problems)


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
