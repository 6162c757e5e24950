"""What follows from a config: every default that depends on other keys, and the refusal of contradictions.

Invariant: `resolve` of a resolved config is the same config, so the `config.yaml` of a run loads back to what ran.
Keys that the chosen topology does not use stay null. To add a derived default: a line in one of the functions here and
the rule in the field's documentation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path as FilePath
from typing import Any, TypeVar

from ludus.config.base import Model
from ludus.config.loading.stages import split_stages, stage_contradictions, stage_path
from ludus.config.parts import check_parts
from ludus.config.problems import Contradiction, dotted
from ludus.config.run import RunConfig
from ludus.config.sections.buffer import check_buffer
from ludus.config.sections.cycle import check_cycle
from ludus.config.sections.evaluate import check_evaluate
from ludus.config.sections.explore import check_explore
from ludus.config.sections.games import check_games, seats_per_game
from ludus.config.sections.league import check_league
from ludus.config.sections.policy import check_policy, has_whole_models_at_servers
from ludus.config.sections.population import (
    NO_EVALUATION,
    PopulationConfig,
    check_exact_population,
    check_learned_population,
)
from ludus.config.sections.record import check_record
from ludus.config.sections.runtime import check_runtime
from ludus.config.sections.synchronise import check_synchronise
from ludus.config.sections.tasks import check_tasks
from ludus.config.sections.topology import check_topology, fused_obstacles
from ludus.config.sections.train import AlgorithmConfig, TrainConfig
from ludus.config.sections.train_checks import check_train
from ludus.config.sections.train_presets import preset_of
from ludus.config.sections.warm_start import check_warm_start
from ludus.errors import ConfigError

_STEPS_PER_GAME = 16
_SEQUENCES_PER_STEP = 64
_BATCHES_KEPT = 8
_ROUNDS_KEPT = 4
_SNAPSHOTS = 20
_STEPS = 10_000_000
_LORA_RATE, _WHOLE_MODEL_RATE = 1e-4, 1e-5
_DEADLINE_S = 1800.0
_FUSED_CHECKPOINT_EVERY = 50
_TABULAR_CHECKPOINT_EVERY = 25

M = TypeVar("M", bound=Model)
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
    check_runtime,
)


def resolve(config: RunConfig) -> RunConfig:
    """Fill in every default that follows from other keys. A config with stages stays as it is: its stages are filled.

    Raises:
        ConfigError: keys contradict each other; one line for each contradiction, with both key paths.
    """
    filled, found = fill_and_check(config)
    if found:
        raise ConfigError(*(f"{dotted(one.path)}: {one.text}" for one in found))
    return filled


def resolve_stages(config: RunConfig, directory: FilePath | None = None) -> tuple[RunConfig, ...]:
    """Every stage of a config as the run that it is, with its defaults; of one without stages, itself.

    Raises:
        ConfigError: keys contradict each other.
    """
    resolve(config)
    return tuple(fill_defaults(stage) for stage in split_stages(config, directory))


def fill_and_check(config: RunConfig) -> tuple[RunConfig, list[Contradiction]]:
    """A config with its defaults, and what cannot hold together in it; one with stages as it is, with what cannot hold
    in any of them or between them: paths begin with `stages`."""
    if not config.stages:
        filled = fill_defaults(config)
        return filled, find_contradictions(filled)
    stages = tuple(fill_defaults(stage) for stage in split_stages(config))
    inside = [
        Contradiction(path=stage_path(index, one.path), text=one.text)
        for index, stage in enumerate(stages)
        for one in find_contradictions(stage)
    ]
    return config, [*stage_contradictions(config, stages), *inside]


def find_contradictions(config: RunConfig) -> list[Contradiction]:
    """Everything in a config, whose defaults are filled, that cannot hold together."""
    checks = _CHECKS
    if config.population is not None and config.population.oracle == "exact":
        checks = (check_exact_population,)
    elif config.population is not None:
        checks = (*_CHECKS, check_learned_population)
    return [found for check in checks for found in check(config)]


def fill_defaults(config: RunConfig) -> RunConfig:
    """Fill in every default that follows from other keys, contradictory or not."""
    if config.population is not None and config.population.oracle == "exact":
        return _fill_population(config, config.population)
    if config.population is not None:
        return _fill_learned(config, config.population)
    config = _fill_entries(config)
    if config.policy.model is not None:
        config = _with(config, explore=_unless_given(config.explore, deadline_s=_DEADLINE_S))
    config = _with(config, topology=config.topology or ("split" if fused_obstacles(config) else "fused"))
    config = _fill_train(config)
    config = _fill_intervals(config)
    return _fill_buffer(config) if config.topology == "split" else config


def _fill_learned(config: RunConfig, population: PopulationConfig) -> RunConfig:
    """What its learners have, and no evaluation beside them: the population's own matches measure."""
    evaluate = _unless_given(config.evaluate, **NO_EVALUATION)
    return _with(fill_defaults(_with(config, population=None, evaluate=evaluate)), population=population)


def _fill_population(config: RunConfig, population: PopulationConfig) -> RunConfig:
    """A generation is an update of one step, and nothing is played beside it."""
    train = _fill(config.train, steps=population.stop.generations)
    league = _fill(config.league, snapshot_every=max(1, (train.steps or 1) // _SNAPSHOTS))
    return _with(
        config,
        topology=config.topology or "tabular",
        train=train,
        league=league,
        evaluate=_fill(_unless_given(config.evaluate, **NO_EVALUATION), every=league.snapshot_every),
        checkpoint=_fill(config.checkpoint, every=_TABULAR_CHECKPOINT_EVERY),
        telemetry=_unless_given(config.telemetry, every_s=0.0),
    )


def _fill_entries(config: RunConfig) -> RunConfig:
    """What a game or a taskset says of prompt and sampling, over what the run says."""
    explore = config.explore
    games = tuple(
        _with(game, prompt=_over(explore.prompt, game.prompt), sampling=_over(explore.sampling, game.sampling))
        for game in config.games
    )
    tasks, held_out = (
        tuple(_with(taskset, sampling=_over(explore.sampling, taskset.sampling)) for taskset in sets)
        for sets in (config.tasks, config.evaluate.tasks)
    )
    others = tuple(
        _with(game, prompt=_over(explore.prompt, game.prompt), sampling=_over(explore.sampling, game.sampling))
        for game in config.evaluate.held_out_games
    )
    evaluate = _with(config.evaluate, tasks=held_out, held_out_games=others)
    return _with(config, games=games, tasks=tasks, evaluate=evaluate)


def _over(model: M, own: M | None) -> M | None:
    """`model` with the keys that `own` sets; None when there is no `own`."""
    return None if own is None else _with(model, **{key: getattr(own, key) for key in own.model_fields_set})


def _fill_train(config: RunConfig) -> RunConfig:
    preset = preset_of(config.train.algorithm)
    train = _unless_given(config.train, epochs=preset.epochs)
    if train.updates is None and train.hours is None:
        train = _fill(train, steps=_STEPS)
    if config.policy.model is not None:
        train = _unless_given(_fill_aggregation(config, train), minibatch=_SEQUENCES_PER_STEP)
        rate = _LORA_RATE if config.policy.model.lora is not None else _WHOLE_MODEL_RATE
        train = _with(train, optimizer=_unless_given(train.optimizer, learning_rate=rate))
    else:
        train = _fill(train, value_normalisation=preset.value_normalisation)
        config = _with(config, policy=_fill(config.policy, critic=preset.critic))
    if config.topology == "fused":
        train = _fill(train, batch_steps=_STEPS_PER_GAME * config.explore.games_in_flight)
    else:
        train = _fill(train, batch_episodes=config.explore.games_in_flight)
    return _with(config, train=_with(train, algorithm=_fill_algorithm(train.algorithm)))


def _fill_algorithm(algorithm: AlgorithmConfig) -> AlgorithmConfig:
    preset = preset_of(algorithm)
    algorithm = _fill(algorithm, advantage=preset.advantage, objective=preset.objective)
    is_shared = any(term.share for term in algorithm.objective or ())
    return _fill(algorithm, mu=preset.mu) if is_shared else algorithm


def _fill_aggregation(config: RunConfig, train: TrainConfig) -> TrainConfig:
    """How a language model's loss is averaged: as the preset says, over the tokens that a reply may have at most."""
    train = _unless_given(train, aggregation=preset_of(train.algorithm).aggregation)
    if train.aggregation != "constant_norm":
        return train
    longest = max(each.max_tokens for each in (config.explore.sampling, *config.sampling_by_game().values()))
    return _unless_given(train, aggregation_length=longest)


def _fill_intervals(config: RunConfig) -> RunConfig:
    steps = config.train.steps
    league = _fill(config.league, snapshot_every=steps and max(1, steps // _SNAPSHOTS))
    evaluate = _fill(config.evaluate, every=league.snapshot_every)
    if not config.games and not evaluate.held_out_games:
        evaluate = _unless_given(evaluate, against=())
    if has_whole_models_at_servers(config):
        evaluate = _unless_given(evaluate, pool_opponents=0)
    every = _FUSED_CHECKPOINT_EVERY if config.topology == "fused" else config.synchronise.interval
    checkpoint = _fill(config.checkpoint, every=every)
    record = config.record
    if config.topology == "fused" and evaluate.every and config.train.batch_steps:
        record = _fill(record, sample_every=max(1, evaluate.every // config.train.batch_steps))
    return _with(config, league=league, evaluate=evaluate, checkpoint=checkpoint, record=record)


def _fill_buffer(config: RunConfig) -> RunConfig:
    episodes = config.train.batch_episodes or 1
    buffer = _fill(
        config.buffer,
        capacity=max(
            max(_BATCHES_KEPT, config.synchronise.offset + 1) * episodes * seats_per_game(config),
            _ROUNDS_KEPT * config.cycle.new_sequences if config.cycle else 0,
        ),
        # At least one seat of each episode learns: with more, the first batch could wait for rows that never come.
        min_size=episodes,
        samples_per_insert=float(config.buffer.reuse),
    )
    if buffer.expert is not None:
        buffer = _with(buffer, expert=_fill(buffer.expert, rows=episodes))
    if buffer.pairs is not None:
        buffer = _with(buffer, pairs=_fill(buffer.pairs, pairs=episodes))
    return _with(config, buffer=buffer)


def _fill(model: M, **defaults: Any) -> M:
    """Replace those of the keys that are null."""
    return _with(model, **{key: value for key, value in defaults.items() if getattr(model, key) is None})


def _unless_given(model: M, **defaults: Any) -> M:
    """Replace those of the keys that were not written."""
    return _with(model, **{key: value for key, value in defaults.items() if key not in model.model_fields_set})


def _with(model: M, **values: Any) -> M:
    return model.model_copy(update=values)
