"""What workers on other machines need of what the config names: files of this machine, models of the hub, packages.

Invariant: a node can have no file of this machine that is not listed here or in the run directory. To let nodes have
something else that a config names, list it in `find_needs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from ludus.config import RewardConfig, RunConfig
from ludus.config.sections.rewards import ModelRewardConfig
from ludus.lm.language_shape import LanguageModelShape
from ludus.lm.node_models import folder_to_bring
from ludus.orchestrator.policy_start import Start, keep_teacher
from ludus.policies import AnyShape
from ludus.storage.run_directory import RunDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNeeds:
    """Empty for workers that need nothing but the run."""

    outside: dict[str, str] = field(default_factory=dict)
    """Files and folders of this machine by what the config calls them."""
    hub_models: tuple[str, ...] = ()
    """Models that each node loads from the hub or its cache."""
    speaks: bool = False
    """Whether nodes need what language models need."""
    parts: tuple[str, ...] = ()
    """Games, players and more that need packages or programs, as `ludus.explore.node_parts` reads them."""


def find_needs(
    config: RunConfig, run: RunDirectory, shape: AnyShape, start: Start[AnyShape] | None, plugins: Sequence[str]
) -> NodeNeeds:
    """What the workers of a run need; another run's teacher is copied into this one first."""
    outside = {path: path for path in plugins}
    if start is not None:
        outside[str(start.run.policies)] = str(start.run.policies)
    if config.policy.model is None:
        return NodeNeeds(outside=outside, parts=("policy.network", *_parts(config)))
    models = list(dict.fromkeys(_models(config, run, shape)))
    folders = {path: folder_to_bring(path) for path in models}
    outside |= {path: str(folder) for path, folder in folders.items() if folder is not None}
    hub_models = tuple(path for path, folder in folders.items() if folder is None)
    return NodeNeeds(outside=outside, hub_models=hub_models, speaks=True, parts=tuple(_parts(config)))


def both(some: NodeNeeds, more: NodeNeeds) -> NodeNeeds:
    """What two need that share their nodes."""
    return NodeNeeds(
        outside={**some.outside, **more.outside},
        hub_models=tuple(dict.fromkeys((*some.hub_models, *more.hub_models))),
        speaks=some.speaks or more.speaks,
        parts=tuple(dict.fromkeys((*some.parts, *more.parts))),
    )


def _parts(config: RunConfig) -> Iterator[str]:
    measured = config.evaluate.held_out_games
    keys = [*(game.key for game in config.games), *(game.key for game in measured)]
    yield from dict.fromkeys(f"game {key}" for key in keys)
    players = chain.from_iterable(choice.players for choice in config.league.opponents)
    against = chain.from_iterable(game.against or () for game in measured)
    yield from dict.fromkeys(f"player {name}" for name in (*players, *config.evaluate.against, *against))


def _models(config: RunConfig, run: RunDirectory, shape: AnyShape) -> Iterator[str]:
    """As the config, or the version that it names, calls them."""
    if isinstance(shape, LanguageModelShape):
        yield shape.model.path
    if teacher := keep_teacher(config, run):
        yield teacher.model.path
    for reward in _rewards(config):
        if isinstance(reward, ModelRewardConfig):
            from ludus.rewards.reward_model import models_of

            yield from models_of(reward)


def _rewards(config: RunConfig) -> Iterator[RewardConfig]:
    yield from config.rewards
    of_games = (game.rewards for game in config.games)
    of_tasks = (taskset.rewards or () for taskset in (*config.tasks, *config.evaluate.tasks))
    yield from chain.from_iterable((*of_games, *of_tasks))
