"""Where a policy begins: with fresh weights, or with those of another run (`policy.start`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ludus.config.load import load_config
from ludus.config.run import RunConfig
from ludus.errors import ConfigError, StorageError
from ludus.policies import PolicyStore
from ludus.policies.language_shape import LanguageModelShape
from ludus.records import PolicyRef
from ludus.storage.run_directory import RunDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A version of another run's policy."""

    run: RunDirectory
    policy: PolicyRef
    shape: LanguageModelShape
    """With the model that the other run stands on."""


def find_start(config: RunConfig) -> Start | None:
    """The version that a config begins with; None to begin afresh.

    Raises:
        ConfigError: there is no such run or version, or its policy is of another make.
    """
    if config.policy.start is None:
        return None
    name, _, number = config.policy.start.partition("@")
    run = RunDirectory(Path(name))
    if not run.is_run():
        raise ConfigError(f"policy.start: {name} is not a run; write the directory of one, such as runs/sft")
    store, theirs = PolicyStore(run.policies), load_config(run.config).policy.name
    versions = [ref for ref in store.versions(theirs) if not number or str(ref.version) == number]
    if not versions:
        what = f"version {number} of {theirs}" if number else f"version of {theirs}"
        raise ConfigError(f"policy.start: {name} has no {what}; `ludus league {name}` shows which there are")
    try:
        shape = store.shape(versions[-1])
    except StorageError as error:
        raise ConfigError(f"policy.start: {error}") from error
    return Start(run=run, policy=versions[-1], shape=_fitting(config, shape).standing_on(run.base))


def _fitting(config: RunConfig, shape: object) -> LanguageModelShape:
    mine = config.policy.model
    if not isinstance(shape, LanguageModelShape) or mine is None:
        raise ConfigError("policy.start: only language models can begin with another run's weights")
    if shape.model.lora != mine.lora:
        raise ConfigError(
            f"policy.start: {config.policy.start} was trained with lora: {_show(shape)}; write the same in policy.model"
        )
    return shape


def _show(shape: LanguageModelShape) -> str:
    lora = shape.model.lora
    return "null" if lora is None else f"{{rank: {lora.rank}, alpha: {lora.alpha:g}}}"
