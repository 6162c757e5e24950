"""What cannot stand beside `population`, and what has no effect beside it because nothing is played or trained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ludus.config.problems import Contradiction
from ludus.config.rules import at, no_effect
from ludus.config.run import RunConfig
from ludus.config.sections.population import PopulationConfig

NO_EVALUATION: dict[str, Any] = {"games": 0, "final_games": 0, "against": (), "at_start": False}
"""What `evaluate` is when it is not given: exploitability is computed, and no evaluation games are played."""

_LEARNED_ONLY = "shared initialise payoffs learners at_once pipeline league"
_WHY = "population.oracle is exact"
_COUNTS: dict[str, set[str]] = {
    "policy": {"name", "model", "start"},
    "explore": set(),
    "experience": set(),
    "buffer": set(),
    "synchronise": set(),
    "train": {"steps"},
    "league": {"snapshot_every", "pool_size"},
    "evaluate": {"every", *NO_EVALUATION},
    "record": set(),
}
"""Sections about playing and training, with those of their keys that are looked at nevertheless."""
_ONE_POPULATION = ("pipelined_psro", "sequential_league", "league")


def check_exact_population(config: RunConfig) -> Iterator[Contradiction]:
    """Everything in a filled config with a population that cannot hold together."""
    yield from _what_is_played(config)
    yield from _how_it_runs(config)
    yield from _how_long(config)
    yield from _no_effect(config)
    yield from _learned_keys(config.population or PopulationConfig())


def _learned_keys(population: PopulationConfig) -> Iterator[Contradiction]:
    if population.scheduler != "psro":
        text = f"{_WHY}, which is for psro; write population.oracle: learned for {population.scheduler}"
        yield at(("population", "scheduler"), text)
    yield from no_effect(population, "population", _LEARNED_ONLY, f"{_WHY}; leave it out")


def _what_is_played(config: RunConfig) -> Iterator[Contradiction]:
    if config.tasks:
        yield at(("tasks",), f"{_WHY}, which is for games; leave the tasks out, or population")
    elif len(config.games) != 1:
        text = f"{_WHY}, which is for one game, and there are {len(config.games)}; write one open_spiel: game"
        yield at(("games",), text)
    for i, game in enumerate(config.games):
        if game.backend != "open_spiel":
            text = f"{_WHY}, which needs a game of OpenSpiel; write an open_spiel: game, not {game.key}"
            yield at(("games", i, "key"), text)


def _how_it_runs(config: RunConfig) -> Iterator[Contradiction]:
    if config.topology != "tabular":
        text = f"{_WHY}, which is topology: tabular; leave out topology: {config.topology}, or population"
        yield at(("topology",), text)
    if config.schedule != "sync":
        yield at(("schedule",), f"{_WHY}, where nothing runs at the same time; write schedule: sync")
    if config.mode != "both":
        yield at(("mode",), f"{_WHY}, where nothing is played; leave out mode: {config.mode}")
    if config.cycle is not None:
        yield at(("cycle",), f"{_WHY}, and there is no data to wait for; leave it out, or population")
    for key in ("model", "start"):
        if getattr(config.policy, key) is not None:
            yield at(("policy", key), f"{_WHY}, and its policies are tables; leave it out, or population")
    if config.warm_start is not None:
        yield at(("warm_start",), f"{_WHY}, and there is nothing to train; leave it out, or population")


def _how_long(config: RunConfig) -> Iterator[Contradiction]:
    generations = config.population.stop.generations if config.population else 0
    if config.train.steps != generations:
        text = f"is {config.train.steps:,}, but population.stop.generations is {generations:,}; leave train.steps out"
        yield at(("train", "steps"), text)
    for key, nothing in NO_EVALUATION.items():
        if getattr(config.evaluate, key) != nothing:
            text = f"{_WHY}, and NashConv is computed after every generation without games; leave it out"
            yield at(("evaluate", key), text)


def _no_effect(config: RunConfig) -> Iterator[Contradiction]:
    for section, counting in _COUNTS.items():
        model = getattr(config, section)
        keys = " ".join(key for key in type(model).model_fields if key not in counting)
        yield from no_effect(model, section, keys, f"{_WHY}, so nothing is played or trained; leave it out")


def check_learned_population(config: RunConfig) -> Iterator[Contradiction]:
    """Everything in a filled config with a population that learns that cannot hold together."""
    population = config.population or PopulationConfig()
    yield from _learners_play(config)
    yield from _schedulers(population)
    yield from _learned_no_effect(config, population)


def _learners_play(config: RunConfig) -> Iterator[Contradiction]:
    exact = config.population is not None and config.population.payoffs.kind == "exact"
    if exact and not all(game.backend == "open_spiel" for game in config.games):
        yield at("population.payoffs.kind", "exact needs a small game of OpenSpiel; write played")
    if config.tasks:
        yield at("tasks", "a population plays games; leave the tasks out, or population")
    elif len(config.games) != 1:
        yield at("games", f"a population plays one game, and there are {len(config.games)}; write one")
    if config.train.shards > 1:
        yield at("train.shards", "a population's learners already share the cores; leave it out")
    if config.mode != "both":
        yield at("mode", f"a population explores and trains; leave out mode: {config.mode}")
    if config.warm_start is not None:
        yield at("warm_start", "a population has none; warm a model up in another run and name that in policy.start")
    for key, nothing in NO_EVALUATION.items():
        if getattr(config.evaluate, key) != nothing:
            text = "a population is measured by its own matches (population.payoffs); leave it out"
            yield at(f"evaluate.{key}", text)


def _schedulers(population: PopulationConfig) -> Iterator[Contradiction]:
    scheduler = population.scheduler
    if not population.shared and scheduler in _ONE_POPULATION:
        yield at("population.shared", f"{scheduler} has one population for all seats; write true")
    if population.learners and (scheduler not in ("psro", "self_play", "fixed") or not population.shared):
        text = "further kinds of learners are for the scheduler psro with a shared population; leave them out"
        yield at("population.learners", text)
    if population.initialise != "random" and scheduler in _ONE_POPULATION:
        yield at("population.initialise", f"{scheduler} says itself what its learners begin with; leave it out")
    rules = population.league
    if rules.self_play + rules.verification > 1:
        yield at("population.league.verification", "is more than population.league.self_play leaves; write less")


def _learned_no_effect(config: RunConfig, population: PopulationConfig) -> Iterator[Contradiction]:
    why = "population.oracle is learned; leave it out"
    yield from no_effect(population, "population", "ties max_histories", why)
    if population.scheduler != "league":
        why = f"population.scheduler is {population.scheduler}; leave it out"
        yield from no_effect(population, "population", "league", why)
    if population.initialise == "pretrained" and config.policy.start is None:
        yield at("population.initialise", "pretrained begins with policy.start, which is null; write it, or random")
    if population.payoffs.kind == "exact":
        why = "population.payoffs.kind is exact; leave it out"
        yield from no_effect(population.payoffs, "population.payoffs", "games", why)
