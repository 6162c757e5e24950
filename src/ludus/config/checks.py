"""All checks between keys, section by section. The rules are in `sections/`, beside the keys they are about."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ludus.config.parts import check_parts
from ludus.config.problems import Contradiction
from ludus.config.run import RunConfig
from ludus.config.sections.buffer import check_buffer
from ludus.config.sections.evaluate import check_evaluate
from ludus.config.sections.explore import check_explore
from ludus.config.sections.games import check_games
from ludus.config.sections.league import check_league
from ludus.config.sections.operation import check_record
from ludus.config.sections.policy import check_policy
from ludus.config.sections.population import check_exact_population, check_learned_population
from ludus.config.sections.synchronise import check_cycle, check_synchronise
from ludus.config.sections.tasks import check_tasks
from ludus.config.sections.topology import check_topology
from ludus.config.sections.train_checks import check_train
from ludus.config.sections.warm_start import check_warm_start

Check = Callable[[RunConfig], Iterator[Contradiction]]

_CHECKS: tuple[Check, ...] = (
    check_topology,
    check_parts,
    check_train,
    check_policy,
    check_explore,
    check_games,
    check_league,
    check_tasks,
    check_warm_start,
    check_evaluate,
    check_record,
    check_cycle,
    check_buffer,
    check_synchronise,
)


def find_contradictions(config: RunConfig) -> list[Contradiction]:
    """Everything in a config, whose defaults are filled, that cannot hold together."""
    checks = _CHECKS
    if config.population is not None and config.population.oracle == "exact":
        checks = (check_exact_population,)
    elif config.population is not None:
        checks = (*_CHECKS, check_learned_population)
    return [found for check in checks for found in check(config)]
