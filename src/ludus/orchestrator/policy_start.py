"""What the policy of a run is, and where it begins: with fresh weights or those of another run (`policy.start`)."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Generic

from ludus.config import (
    LanguageModelConfig,
    RunConfig,
    TeacherConfig,
    dump_config,
    load_config,
    needs_critic,
    parse_config,
)
from ludus.errors import ConfigError, StorageError
from ludus.games.protocol import GameSpec
from ludus.lm.language_shape import LanguageModelShape
from ludus.lm.teachers import TeacherModel, check_same_tokens
from ludus.policies import AnyShape, PolicyShape, PolicyStore, TabularShape
from ludus.policies.shapes import ShapeT_co
from ludus.records import PolicyRef
from ludus.storage.atomic import ensure_directory, publish_directory, temporary_name, write_text
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


def check_fits_games(config: RunConfig, specs: dict[str, GameSpec]) -> None:
    """See to it that one network can play all games, and that one that was trained elsewhere sees what they show.

    Raises:
        ConfigError: it cannot, or does not.
    """
    mine, start = network_shape(config, specs), find_start(config)
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
        lora = shape.model.lora
        shown = "null" if lora is None else f"{{rank: {lora.rank}, alpha: {lora.alpha:g}}}"
        raise ConfigError(f"policy.start: {start} was trained with lora: {shown}; write the same in policy.model")


def _check_critic(config: RunConfig, shape: PolicyShape) -> None:
    start = config.policy.start
    if shape.critic != (config.policy.critic or "shared"):
        raise ConfigError(f"policy.start: {start} was trained with critic: {shape.critic}; write the same in policy")
    if shape.normalises_value != bool(config.train.value_normalisation):
        wanted = str(shape.normalises_value).lower()
        raise ConfigError(f"policy.start: {start} was trained with train.value_normalisation: {wanted}; write the same")


def policy_shape(config: RunConfig, specs: dict[str, GameSpec], start: Start[AnyShape] | None = None) -> AnyShape:
    """What the policy is: a network that fits the games, or a language model, which fits all of them."""
    if config.mode == "evaluate" and start is not None:
        return start.shape
    if config.population is not None and config.population.oracle == "exact":
        return TabularShape(game=config.games[0].key)
    if config.policy.model is None:
        return network_shape(config, specs)
    model = config.policy.model
    if start is not None and isinstance(start.shape, LanguageModelShape):
        model = model.model_copy(update={"path": start.shape.model.path})
    return LanguageModelShape(model=model, critic=needs_critic(config.train.algorithm), games=tuple(specs))


def network_shape(config: RunConfig, specs: dict[str, GameSpec]) -> PolicyShape:
    """The one shape that all games of a run must share, because one network plays them."""
    shapes = {(spec.observation_shape, spec.actions) for spec in specs.values()}
    if len(shapes) > 1:
        found = "; ".join(
            f"{key}: sees {spec.observation_shape}, {spec.actions} actions" for key, spec in specs.items()
        )
        raise ConfigError(f"games: one network cannot play games of different shapes ({found})")
    observation_shape, actions = shapes.pop()
    if not observation_shape:
        raise ConfigError(f"games: {', '.join(specs)} has no observation tensor for a network to see")
    layouts = {spec.layout for spec in specs.values()}
    critic = config.policy.critic or "shared"
    return PolicyShape(
        network=config.policy.network,
        observation_shape=observation_shape,
        actions=actions,
        layout=layouts.pop() if len(layouts) == 1 else "channels_first",
        games=tuple(specs),
        critic=critic,
        state_size=_state_size(specs) if critic == "central" else 0,
        normalises_value=bool(config.train.value_normalisation),
    )


def _state_size(specs: dict[str, GameSpec]) -> int:
    """What a central critic sees of every game of the run."""
    sizes = {key: spec.state_size for key, spec in specs.items()}
    if len(set(sizes.values())) > 1:
        found = "; ".join(f"{key}: {size} numbers" for key, size in sizes.items())
        raise ConfigError(f"policy.critic: one central critic cannot see states of different sizes ({found})")
    return next(iter(sizes.values()))


_KEY = "policy.teacher.run"


def check_teacher(config: RunConfig, run: RunDirectory | None = None) -> None:
    """See that the teacher is there and speaks in the policy's tokens; `run` may have kept it already.

    Raises:
        ConfigError: it is not, or it does not.
    """
    teacher, model = config.policy.teacher, config.policy.model
    if teacher is None or model is None:
        return
    start = find_start(config)
    mine = start.shape.model.path if start and isinstance(start.shape, LanguageModelShape) else model.path
    kept = None if run is None else _kept(run)
    if kept is not None:
        check_same_tokens(mine, _as_model(teacher, PolicyStore(run.teacher), kept).model.path)  # type: ignore[union-attr]
    elif teacher.run is not None:
        check_same_tokens(mine, find_version(_KEY, teacher.run).shape.model.path)
    else:
        check_same_tokens(mine, str(teacher.path))


def keep_teacher(config: RunConfig, run: RunDirectory) -> TeacherModel | None:
    """The teacher as the trainer loads it; another run's version is copied first, if it was not before."""
    teacher = config.policy.teacher
    if teacher is None:
        return None
    if teacher.run is None:
        return TeacherModel(model=LanguageModelConfig(path=str(teacher.path), lora=None, dtype=teacher.dtype))
    return _as_model(teacher, PolicyStore(run.teacher), _kept(run) or _copy(teacher.run, run))


def _kept(run: RunDirectory) -> PolicyRef | None:
    store = PolicyStore(run.teacher)
    return next((ref for name in store.names() for ref in store.versions(name)), None)


def _copy(text: str, run: RunDirectory) -> PolicyRef:
    """A version never changes, so its files are shared where the file system can do that."""
    found = find_version(_KEY, text)
    final = PolicyStore(run.teacher).path(found.policy)
    ensure_directory(final.parent)
    staging = temporary_name(final.parent)
    shutil.copytree(PolicyStore(found.run.policies).path(found.policy), staging, copy_function=_link)
    publish_directory(staging, final)
    return found.policy


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _as_model(teacher: TeacherConfig, store: PolicyStore, ref: PolicyRef) -> TeacherModel:
    shape = store.shape(ref)
    assert isinstance(shape, LanguageModelShape)  # noqa: S101 - `find_version` has made sure
    if shape.model.lora is None:
        return TeacherModel(model=LanguageModelConfig(path=str(store.path(ref)), lora=None, dtype=teacher.dtype))
    below = shape
    if not Path(shape.model.path).is_dir():  # an id on the hub, or a warm start of a run that has been moved since
        below = shape.standing_on(find_run(Path(str(teacher.run).partition("@")[0])).base)
    model = below.model.model_copy(update={"dtype": teacher.dtype, "context": None})
    return TeacherModel(model=model, adapter=str(store.path(ref)))
