"""Settings that cannot all hold. Those that would merely have no effect are in `ineffective.py`.

Invariant: nothing a user wrote is bent or ignored silently. Each check looks at a config whose defaults are filled,
names the other key and says what to write instead. To add one: a `yield` in the function it belongs to.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator

from ludus.config.problems import Contradiction, Path, dotted
from ludus.config.run import RunConfig
from ludus.config.sections.cycle_checks import cycle_contradictions
from ludus.config.sections.endpoints_checks import endpoint_contradictions
from ludus.config.sections.evaluate_checks import evaluate_contradictions
from ludus.config.sections.ineffective import ineffective_settings
from ludus.config.sections.learned_checks import learned_contradictions
from ludus.config.sections.policy_checks import baseline_contradictions
from ludus.config.sections.population_checks import population_contradictions
from ludus.config.sections.synchronise_checks import synchronise_contradictions
from ludus.config.sections.tasks_checks import task_contradictions
from ludus.config.sections.topology import fused_obstacles
from ludus.config.sections.train import GROUP_KINDS, TrainConfig
from ludus.config.sections.train_checks import objective_contradictions
from ludus.config.sections.train_presets import needs_critic

_LANGUAGE_KEYS = ("aggregation", "aggregation_length", "tokens_per_micro_batch", "activation_checkpointing")
_RESERVED_NAMES = re.compile(r"^(random|first|mcts-\d+|minimax-\d+)$")


def find_contradictions(config: RunConfig, *, seats: int = 2) -> list[Contradiction]:
    """Everything in a filled config that cannot hold together; `seats` is how many a game is reckoned to have."""
    if config.population is not None and config.population.oracle == "exact":
        return list(population_contradictions(config))
    checks: list[Callable[[RunConfig], Iterator[Contradiction]]] = [
        _topology,
        _fused_batch if config.topology == "fused" else _split_batch,
        _algorithm,
        _network,
        objective_contradictions,
        baseline_contradictions,
        _language_model,
        _league,
        _repeats,
        endpoint_contradictions,
        task_contradictions,
        evaluate_contradictions,
        ineffective_settings,
    ]
    found = [one for check in checks for one in check(config)]
    found += cycle_contradictions(config, seats)
    if config.population is not None:
        found += learned_contradictions(config)
    if config.topology == "split":
        found += [*_buffer(config, seats), *synchronise_contradictions(config, seats)]
    return found


def _at(path: str | Path, text: str) -> Contradiction:
    return Contradiction(path=tuple(path.split(".")) if isinstance(path, str) else path, text=text)


def _topology(config: RunConfig) -> Iterator[Contradiction]:
    if config.topology == "tabular":
        yield _at("topology", "tabular computes a population, and population is null; write population: {}")
    if config.topology != "fused":
        return
    for one in fused_obstacles(config):
        keep = f"{dotted(one.path)}: {one.instead}"
        yield _at(one.path, f"{one.reason}, but topology is fused; write topology: split, or {keep}")


def _fused_batch(config: RunConfig) -> Iterator[Contradiction]:
    train, games = config.train, config.explore.games_in_flight
    batch = train.batch_steps or games
    fitting = math.lcm(games, train.minibatch) * max(1, round(batch / math.lcm(games, train.minibatch)))
    if train.batch_episodes is not None:
        yield _at("train.batch_episodes", "the fused topology counts steps; write train.batch_steps instead")
    if batch % games:
        text = f"{batch} is not a multiple of explore.games_in_flight ({games}); write train.batch_steps: {fitting}"
        yield _at("train.batch_steps", text)
    elif batch % train.minibatch:
        text = f"{batch} is not a multiple of train.minibatch ({train.minibatch}); write train.batch_steps: {fitting}"
        yield _at("train.batch_steps", text)
    for path, size in (("explore.games_in_flight", games), ("train.minibatch", train.minibatch)):
        if size % train.shards:
            text = f"{size} cannot be shared evenly by {train.shards} shards (train.shards)"
            yield _at(path, f"{text}; write {math.ceil(size / train.shards) * train.shards}, or train.shards: 1")
    if train.steps < batch:
        text = f"{train.steps} is less than one batch (train.batch_steps: {batch}); write at least that"
        yield _at("train.steps", text)


def _split_batch(config: RunConfig) -> Iterator[Contradiction]:
    train, explore = config.train, config.explore
    if train.batch_steps is not None:
        yield _at("train.batch_steps", "topology split counts episodes; write train.batch_episodes instead")
    if explore.workers > explore.games_in_flight:
        text = f"{explore.workers} workers share explore.games_in_flight ({explore.games_in_flight}) games"
        yield _at("explore.workers", f"{text}; write at most {explore.games_in_flight} workers")


def _language_model(config: RunConfig) -> Iterator[Contradiction]:
    model, engine, algorithm = config.policy.model, config.explore.engine, config.train.algorithm
    if model is None:
        if config.warm_start is not None:
            yield _at("warm_start", "is for language models; give policy.model, or leave it out")
        if config.explore.group > 1:
            yield _at("explore.group", "is for language models; give policy.model, or write explore.group: 1")
        for key in _LANGUAGE_KEYS:
            if getattr(config.train, key) != TrainConfig.model_fields[key].default:
                yield _at(f"train.{key}", "is for language models; give policy.model, or leave it out")
        return
    if (config.train.aggregation == "constant_norm") != (config.train.aggregation_length is not None):
        text = "train.aggregation: constant_norm alone divides by train.aggregation_length; write both, or neither"
        yield _at("train.aggregation_length", text)
    if engine.kind == "vllm" and model.lora is None:
        yield _at(
            "policy.model.lora", "a vLLM server takes adapters only; write a lora, or explore.engine: {kind: local}"
        )
    if engine.kind == "vllm" and needs_critic(algorithm):
        text = "has a value term, but a vLLM server has no critic; leave it out, or use the engine local"
        yield _at("train.algorithm.objective", text)
    kind = algorithm.advantage.kind if algorithm.advantage else ""
    if kind in GROUP_KINDS and config.explore.group < 2:
        yield _at("explore.group", f"the advantage {kind} compares episodes of one group; write at least 2")
    if config.explore.noise:
        yield _at("explore.noise", "is for boards; a language model explores by explore.sampling.temperature")


def _buffer(config: RunConfig, seats: int) -> Iterator[Contradiction]:
    buffer, episodes, staleness = config.buffer, config.train.batch_episodes or 1, config.train.max_staleness
    capacity, min_size = buffer.capacity or 0, buffer.min_size or 0
    if capacity < episodes * seats:
        text = f"{capacity} sequences are less than one batch (train.batch_episodes: {episodes}, {seats} seats each)"
        yield _at("buffer.capacity", f"{text}; write at least {episodes * seats}")
    if min_size > capacity:
        yield _at("buffer.min_size", f"{min_size} is more than buffer.capacity ({capacity}); write at most that")
    if buffer.samples_per_insert is not None and buffer.samples_per_insert > buffer.reuse:
        text = f"{buffer.samples_per_insert} cannot be reached with buffer.reuse: {buffer.reuse}"
        yield _at("buffer.samples_per_insert", f"{text}; write at most {buffer.reuse}, or a higher reuse")
    if config.schedule == "async":
        updates = (staleness + 1) * config.publish_interval
        if min_size > updates * episodes:
            text = f"only {updates * episodes} episodes are played before the first update"
            yield _at("buffer.min_size", f"{text} (train.max_staleness: {staleness}); write at most that")
        if buffer.reuse > updates:
            versions = (buffer.reuse - 1) // config.publish_interval
            text = f"{buffer.reuse} uses need experience {versions} versions old"
            yield _at("buffer.reuse", f"{text}, but train.max_staleness is {staleness}; write at least that there")


def _algorithm(config: RunConfig) -> Iterator[Contradiction]:
    train = config.train
    chunk = _chunk(config)
    if (rows := max(1, train.minibatch // train.shards // chunk)) % train.accumulate:
        what = f"{rows} stretches of {chunk} decisions" if chunk > 1 else f"train.minibatch ({rows})"
        what += " of each shard" if train.shards > 1 else ""
        text = f"{what} cannot be split into {train.accumulate} equal parts"
        yield _at("train.accumulate", f"{text}; write a divisor of it")
    advantage = train.algorithm.advantage
    if config.topology == "split" and advantage and advantage.perspective == "alternate":
        text = "alternate is for topology: fused; write seat (it serves every game)"
        yield _at("train.algorithm.advantage.perspective", text)


def _chunk(config: RunConfig) -> int:
    """Decisions of a row: more than one for a network with a memory."""
    memory = getattr(config.policy.network, "memory", None)
    return 1 if memory is None or config.policy.model is not None else int(memory.chunk)


def _network(config: RunConfig) -> Iterator[Contradiction]:
    network, critic, train = config.policy.network, config.policy.critic, config.train
    if config.policy.model is not None:
        if critic not in (None, "shared"):
            yield _at("policy.critic", "is for networks; leave it out, or leave out policy.model")
        if train.value_normalisation:
            yield _at("train.value_normalisation", "is for networks; leave it out, or leave out policy.model")
        return
    if train.value_normalisation and train.trainers > 1:
        text = "the scale of values is one trainer's; write train.trainers: 1, or train.value_normalisation: false"
        yield _at("train.trainers", text)
    if network.kind == "resnet" and critic not in (None, "shared"):
        yield _at("policy.critic", f"{critic} needs policy.network.kind: mlp; a resnet shares its critic, write shared")
    if not needs_critic(train.algorithm):
        if critic not in (None, "shared"):
            yield _at("policy.critic", "has no effect: train.algorithm.objective has no value term")
        if train.value_normalisation:
            yield _at("train.value_normalisation", "has no effect: train.algorithm.objective has no value term")
    if network.kind == "mlp" and network.memory is not None and train.minibatch < network.memory.chunk:
        text = f"{network.memory.chunk} decisions are more than train.minibatch ({train.minibatch}); write at most that"
        yield _at("policy.network.memory.chunk", text)


def _league(config: RunConfig) -> Iterator[Contradiction]:
    for i, opponent in enumerate(config.league.opponents):
        path: Path = ("league", "opponents", i)
        if opponent.kind == "fixed" and not opponent.players:
            text = f"{dotted(path)}.kind is fixed, but there is nobody to choose from; write players: [random]"
            yield _at((*path, "players"), text)
        if opponent.kind == "custom" and opponent.name is None:
            yield _at((*path, "name"), f"{dotted(path)}.kind is custom; write the name of the registered sampler")
    named = {player for opponent in config.league.opponents for player in opponent.players}
    if _RESERVED_NAMES.match(config.policy.name) or config.policy.name in named | set(config.evaluate.against):
        yield _at("policy.name", f"{config.policy.name} is a fixed player's name; write another, such as main")


def _repeats(config: RunConfig) -> Iterator[Contradiction]:
    lists: dict[Path, list[str]] = {
        ("games",): [game.key for game in config.games],
        ("evaluate", "against"): list(config.evaluate.against),
    }
    for i, opponent in enumerate(config.league.opponents):
        lists["league", "opponents", i, "players"] = list(opponent.players)
    for path, names in lists.items():
        for i, name in enumerate(names):
            if name in names[:i]:
                first = dotted((*path, names.index(name)))
                yield _at((*path, i), f"{name} is already there as {first}; write it once")
