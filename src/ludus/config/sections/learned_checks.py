"""What cannot stand beside a population that learns."""

from __future__ import annotations

from collections.abc import Iterator

from ludus.config.problems import Contradiction
from ludus.config.run import RunConfig
from ludus.config.sections.population import LeagueRulesConfig, PayoffConfig, PopulationConfig
from ludus.config.sections.population_checks import NO_EVALUATION

_ONE_POPULATION = ("pipelined_psro", "sequential_league", "league")


def learned_contradictions(config: RunConfig) -> Iterator[Contradiction]:
    """Everything in a filled config with a population that learns that cannot hold together."""
    population = config.population or PopulationConfig()
    yield from _what_is_played(config)
    yield from _schedulers(population)
    yield from _no_effect(config, population)


def _at(path: str, text: str) -> Contradiction:
    return Contradiction(path=tuple(path.split(".")), text=text)


def _what_is_played(config: RunConfig) -> Iterator[Contradiction]:
    exact = config.population is not None and config.population.payoffs.kind == "exact"
    if exact and not all(game.key.startswith("open_spiel:") for game in config.games):
        yield _at("population.payoffs.kind", "exact needs a small game of OpenSpiel; write played")
    if config.tasks:
        yield _at("tasks", "a population plays games; leave the tasks out, or population")
    elif len(config.games) != 1:
        yield _at("games", f"a population plays one game, and there are {len(config.games)}; write one")
    if config.train.shards > 1:
        yield _at("train.shards", "a population's learners already share the cores; leave it out")
    if config.mode != "both":
        yield _at("mode", f"a population explores and trains; leave out mode: {config.mode}")
    if config.warm_start is not None:
        yield _at("warm_start", "a population has none; warm a model up in another run and name that in policy.start")
    for key, nothing in NO_EVALUATION.items():
        if getattr(config.evaluate, key) != nothing:
            text = "a population is measured by its own matches (population.payoffs); leave it out"
            yield _at(f"evaluate.{key}", text)


def _schedulers(population: PopulationConfig) -> Iterator[Contradiction]:
    scheduler = population.scheduler
    if not population.shared and scheduler in _ONE_POPULATION:
        yield _at("population.shared", f"{scheduler} has one population for all seats; write true")
    if population.learners and (scheduler not in ("psro", "self_play", "fixed") or not population.shared):
        text = "further kinds of learners are for the scheduler psro with a shared population; leave them out"
        yield _at("population.learners", text)
    if population.initialise != "random" and scheduler in _ONE_POPULATION:
        yield _at("population.initialise", f"{scheduler} says itself what its learners begin with; leave it out")
    rules = population.league
    if rules.self_play + rules.verification > 1:
        yield _at("population.league.verification", "is more than population.league.self_play leaves; write less")


def _no_effect(config: RunConfig, population: PopulationConfig) -> Iterator[Contradiction]:
    default = PopulationConfig()
    for key in ("ties", "max_histories"):
        if getattr(population, key) != getattr(default, key):
            yield _at(f"population.{key}", "has no effect: population.oracle is learned; leave it out")
    if population.scheduler != "league" and population.league != LeagueRulesConfig():
        yield _at("population.league", f"has no effect: population.scheduler is {population.scheduler}; leave it out")
    if population.initialise == "pretrained" and config.policy.start is None:
        yield _at("population.initialise", "pretrained begins with policy.start, which is null; write it, or random")
    if population.payoffs.kind == "exact" and population.payoffs.games != PayoffConfig().games:
        yield _at("population.payoffs.games", "has no effect: population.payoffs.kind is exact; leave it out")
