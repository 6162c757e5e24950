"""What cannot stand beside `population`, and what has no effect beside it because nothing is played or trained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ludus.config.problems import Contradiction, Path
from ludus.config.run import RunConfig
from ludus.config.sections.population import PopulationConfig

NO_EVALUATION: dict[str, Any] = {"games": 0, "final_games": 0, "against": (), "at_start": False}
"""What `evaluate` is when it is not given: exploitability is computed, and nobody plays to measure."""

_LEARNED_ONLY = (
    "shared",
    "initialise",
    "payoffs",
    "learners",
    "at_once",
    "pipeline",
    "league",
)
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


def population_contradictions(config: RunConfig) -> Iterator[Contradiction]:
    """Everything in a filled config with a population that cannot hold together."""
    yield from _what_is_played(config)
    yield from _how_it_runs(config)
    yield from _how_long(config)
    yield from _no_effect(config)
    yield from _learned_keys(config.population or PopulationConfig())


def _learned_keys(population: PopulationConfig) -> Iterator[Contradiction]:
    if population.scheduler != "psro":
        text = f"{_WHY}, which is for psro; write population.oracle: learned for {population.scheduler}"
        yield _at(("population", "scheduler"), text)
    default = PopulationConfig()
    for key in _LEARNED_ONLY:
        if getattr(population, key) != getattr(default, key):
            yield _at(("population", key), f"has no effect: {_WHY}; leave it out")


def _at(path: Path, text: str) -> Contradiction:
    return Contradiction(path=path, text=text)


def _what_is_played(config: RunConfig) -> Iterator[Contradiction]:
    if config.tasks:
        yield _at(("tasks",), f"{_WHY}, which is for games; leave the tasks out, or population")
    elif len(config.games) != 1:
        text = f"{_WHY}, which is for one game, and there are {len(config.games)}; write one open_spiel: game"
        yield _at(("games",), text)
    for i, game in enumerate(config.games):
        if not game.key.startswith("open_spiel:"):
            text = f"{_WHY}, which needs a game of OpenSpiel; write an open_spiel: game, not {game.key}"
            yield _at(("games", i, "key"), text)


def _how_it_runs(config: RunConfig) -> Iterator[Contradiction]:
    if config.topology != "tabular":
        text = f"{_WHY}, which is topology: tabular; leave out topology: {config.topology}, or population"
        yield _at(("topology",), text)
    if config.schedule != "sync":
        yield _at(("schedule",), f"{_WHY}, where nothing runs at the same time; write schedule: sync")
    if config.mode != "both":
        yield _at(("mode",), f"{_WHY}, where nothing is played; leave out mode: {config.mode}")
    if config.cycle is not None:
        yield _at(("cycle",), f"{_WHY}, and there is no data to wait for; leave it out, or population")
    for key in ("model", "start"):
        if getattr(config.policy, key) is not None:
            yield _at(("policy", key), f"{_WHY}, and its policies are tables; leave it out, or population")
    if config.warm_start is not None:
        yield _at(("warm_start",), f"{_WHY}, and there is nothing to train; leave it out, or population")


def _how_long(config: RunConfig) -> Iterator[Contradiction]:
    generations = config.population.stop.generations if config.population else 0
    if config.train.steps != generations:
        text = f"is {config.train.steps:,}, but population.stop.generations is {generations:,}; leave train.steps out"
        yield _at(("train", "steps"), text)
    for key, nothing in NO_EVALUATION.items():
        if getattr(config.evaluate, key) != nothing:
            text = f"{_WHY}, and NashConv is computed after every generation without games; leave it out"
            yield _at(("evaluate", key), text)


def _no_effect(config: RunConfig) -> Iterator[Contradiction]:
    for section, counting in _COUNTS.items():
        model = getattr(config, section)
        for key, field in type(model).model_fields.items():
            if key not in counting and getattr(model, key) != field.get_default(call_default_factory=True):
                text = f"has no effect: {_WHY}, so nothing is played or trained; leave it out"
                yield _at((section, key), text)
