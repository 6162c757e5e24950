"""Parts of a policy and its training that plugins may add, by name, so that a config is checked against them.

The rooms that use a part register it: `ludus.train` losses, advantages, schedules and loaders, `ludus.policies`
networks, `ludus.inference` engines. Presets are in `sections/train_presets.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ludus.config.problems import Contradiction, Path, show
from ludus.config.run import RunConfig
from ludus.config.sections.chess_losses import CHESS_LOSS_OPTIONS
from ludus.config.sections.train_losses import LOSS_OPTIONS, LOSS_SOURCES, LossOption
from ludus.config.sections.train_presets import PRESETS
from ludus.plugins import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnLoss:
    """A loss of a plugin."""

    function: Callable[..., Any]
    sources: tuple[str, ...] = ("on_policy",)
    """Rows that it can learn from."""


_OPTIONS = {**LOSS_OPTIONS, **CHESS_LOSS_OPTIONS}
LOSSES: Registry[OwnLoss | Callable[..., Any]] = Registry("loss", "ludus.losses", reserved=tuple(_OPTIONS))
"""An entry point may be the function alone."""
ADVANTAGES: Registry[Callable[..., Any]] = Registry("advantage", "ludus.advantages")
SCHEDULES: Registry[Callable[..., Any]] = Registry(
    "schedule", "ludus.schedules", reserved=("constant", "linear", "cosine")
)
NETWORKS: Registry[Callable[..., Any]] = Registry("network", "ludus.networks")
LOADERS: Registry[Callable[..., Any]] = Registry("loader", "ludus.loaders", reserved=("chess_chunks",))
ENGINES: Registry[Callable[..., Any]] = Registry("engine", "ludus.engines")


def own_loss(name: str) -> OwnLoss:
    """The loss that a plugin registered under a name. Raises ConfigError where none has."""
    found = LOSSES.find(name)
    return found if isinstance(found, OwnLoss) else OwnLoss(function=found)


def loss_options(name: str) -> dict[str, LossOption]:
    """The options of a loss that exists; those of a plugin's loss may be any number, word or null."""
    if name in _OPTIONS:
        return _OPTIONS[name]
    parameters = inspect.signature(own_loss(name).function).parameters.values()
    return {one.name: LossOption(is_free=True) for one in parameters if one.kind is one.KEYWORD_ONLY}


def loss_sources(name: str) -> tuple[str, ...]:
    """Where a loss that exists can learn from."""
    return LOSS_SOURCES.get(name, ("on_policy",)) if name in _OPTIONS else own_loss(name).sources


def check_parts(config: RunConfig) -> Iterator[Contradiction]:
    """Every name of a part that nothing has."""
    for path, name, registry in _named_parts(config):
        if name not in registry:
            yield Contradiction(path=path, text=f"{show(name)}: {registry.unknown(name)}")


def _named_parts(config: RunConfig) -> Iterator[tuple[Path, str, Registry[Any]]]:
    algorithm, network, engine = config.train.algorithm, config.policy.network, config.explore.engine
    yield ("train", "algorithm", "preset"), algorithm.preset, PRESETS
    yield ("train", "optimizer", "schedule"), config.train.optimizer.schedule, SCHEDULES
    for place, term in enumerate(algorithm.objective or ()):
        yield ("train", "algorithm", "objective", place, "loss"), term.loss, LOSSES
    if algorithm.advantage is not None and algorithm.advantage.kind == "custom":
        yield ("train", "algorithm", "advantage", "name"), algorithm.advantage.name or "", ADVANTAGES
    if network.kind == "custom":
        yield ("policy", "network", "name"), network.name, NETWORKS
    if config.buffer.loader is not None:
        yield ("buffer", "loader", "kind"), config.buffer.loader.kind, LOADERS
    if engine.kind == "custom":
        yield ("explore", "engine", "name"), engine.name, ENGINES
