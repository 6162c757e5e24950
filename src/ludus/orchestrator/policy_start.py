"""Where a policy begins: with fresh weights, or with those of another run (`policy.start`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Generic

from ludus.config import RunConfig, dump_config, load_config, parse_config
from ludus.errors import ConfigError, StorageError
from ludus.lm.language_shape import LanguageModelShape
from ludus.policies import AnyShape, PolicyShape, PolicyStore, TabularShape
from ludus.policies.shapes import ShapeT_co
from ludus.records import PolicyRef
from ludus.storage.atomic import write_text
from ludus.storage.run_directory import RunDirectory, find_run


@dataclass(frozen=True, slots=True, kw_only=True)
class Start(Generic[ShapeT_co]):
    """A version of another run's policy."""

    run: RunDirectory
    policy: PolicyRef
    shape: ShapeT_co
    """Of a language model: with the model that the other run stands on."""


def find_start(config: RunConfig) -> Start[AnyShape] | None:
    """The version that a config begins with; None to begin afresh.

    Raises:
        ConfigError: there is no such run or version, or its policy is of another make.
    """
    if config.policy.start is None:
        return None
    found = _find_any_version("policy.start", config.policy.start)
    _check_fit(config, found.shape)
    return found


def find_version(key: str, text: str) -> Start[LanguageModelShape]:
    """A run (its newest version), or a version of it, written as `runs/x` or `runs/x@3` under this key of a config.

    Raises:
        ConfigError: there is no such run or version, or its policy is no language model.
    """
    found = _find_any_version(key, text)
    if not isinstance(found.shape, LanguageModelShape):
        raise ConfigError(f"{key}: the policy of {found.run.path} is no language model; write a run of one")
    return Start(run=found.run, policy=found.policy, shape=found.shape)


def follow_move(run: RunDirectory, start: str | None) -> None:
    """Let a run that is a part of another find what it began with, also after that was moved."""
    saved = parse_config(run.read_config(), "config.yaml", stored=True)
    if saved.policy.start != start:
        policy = saved.policy.model_copy(update={"start": start})
        write_text(run.config, dump_config(saved.model_copy(update={"policy": policy})))


def check_fits_games(start: Start[AnyShape] | None, mine: PolicyShape) -> None:
    """See to it that a network that was trained elsewhere sees what this run's games show.

    Raises:
        ConfigError: it does not.
    """
    if start is None or not isinstance(start.shape, PolicyShape):
        return
    theirs = start.shape
    if (theirs.observation_shape, theirs.actions, theirs.layout) != (mine.observation_shape, mine.actions, mine.layout):
        raise ConfigError(
            f"policy.start: the network of {start.run.path} sees {theirs.observation_shape} ({theirs.layout}) and has "
            f"{theirs.actions} actions; the games of this run show {mine.observation_shape} ({mine.layout}) and have "
            f"{mine.actions}"
        )


def _find_any_version(key: str, text: str) -> Start[AnyShape]:
    name, _, version = text.partition("@")
    run = find_run(Path(name))
    if not run.is_run():
        raise ConfigError(f"{key}: {name} is not a run; write the directory of one, such as runs/sft")
    policy, _, number = version.rpartition("@")
    store, theirs = PolicyStore(run.policies), policy or load_config(run.config).policy.name
    versions = [ref for ref in store.versions(theirs) if not number or str(ref.version) == number]
    if not versions:
        what = f"version {number} of {theirs}" if number else f"version of {theirs}"
        raise ConfigError(f"{key}: {name} has no {what}; `ludus league {name}` shows which there are")
    try:
        shape = store.shape(versions[-1])
    except StorageError as error:
        raise ConfigError(f"{key}: {error}") from error
    if isinstance(shape, LanguageModelShape):
        shape = shape.standing_on(run.base)
    return Start(run=run, policy=versions[-1], shape=shape)


def _check_fit(config: RunConfig, shape: AnyShape) -> None:
    mine, start = config.policy.model, config.policy.start
    if isinstance(shape, TabularShape):
        raise ConfigError(f"policy.start: {start} computed a table, and neither a network nor a model begins with one")
    if isinstance(shape, PolicyShape):
        if mine is not None:
            raise ConfigError(f"policy.start: {start} trains a network, and policy.model is a language model")
        if shape.network != config.policy.network:
            network = shape.network.model_dump(mode="json")
            raise ConfigError(f"policy.start: {start} was trained with network: {network}; write the same in policy")
        if config.mode != "evaluate":
            _check_critic(config, shape)
        return
    if mine is None:
        raise ConfigError(f"policy.start: {start} trains a language model; write its path as policy.model")
    if shape.model.lora != mine.lora:
        raise ConfigError(
            f"policy.start: {config.policy.start} was trained with lora: {_show(shape)}; write the same in policy.model"
        )


def _check_critic(config: RunConfig, shape: PolicyShape) -> None:
    start = config.policy.start
    if shape.critic != (config.policy.critic or "shared"):
        raise ConfigError(f"policy.start: {start} was trained with critic: {shape.critic}; write the same in policy")
    if shape.normalises_value != bool(config.train.value_normalisation):
        wanted = str(shape.normalises_value).lower()
        raise ConfigError(f"policy.start: {start} was trained with train.value_normalisation: {wanted}; write the same")


def _show(shape: LanguageModelShape) -> str:
    lora = shape.model.lora
    return "null" if lora is None else f"{{rank: {lora.rank}, alpha: {lora.alpha:g}}}"
