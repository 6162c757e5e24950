"""What cannot hold in `train`: batches, terms with their sources and options, and what is for language models alone."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ludus.config.parts import LOSSES, loss_options, loss_sources
from ludus.config.problems import Contradiction, Path, at, is_set, no_effect, show
from ludus.config.run import RunConfig
from ludus.config.sections.chess import ChessAttentionConfig, ChessResidualConfig
from ludus.config.sections.chess_losses import CHESS_LOSS_OPTIONS
from ludus.config.sections.train import GROUP_KINDS, TermConfig
from ludus.config.sections.train_presets import needs_critic, needs_greedy

_PATH: Path = ("train", "algorithm")
_OBJECTIVE: Path = (*_PATH, "objective")
_BOARD_KINDS = ("gae", "monte_carlo", "vtrace", "custom")
_LANGUAGE_KEYS = (
    "aggregation",
    "aggregation_length",
    "tokens_per_micro_batch",
    "device",
    "forward",
    "activation_checkpointing",
    "sharding",
    "offload_optimizer",
)
_ADVANTAGE_KEYS = {
    "rho_clip c_clip": ("vtrace",),
    "lam": ("gae", "vtrace"),
    "gamma": ("gae", "vtrace", "monte_carlo", "remax"),
    "scale scale_eps": ("group",),
    "baseline tau": ("opmd",),
    "baseline_shift": ("asymre",),
    "name options": ("custom",),
}
"""Keys of an advantage, and the kinds that look at them."""


def check_train(config: RunConfig) -> Iterator[Contradiction]:
    """Batches, the algorithm and its objective, the optimizer, and what is for language models alone."""
    train = config.train
    if config.topology == "fused":
        yield from _fused_batch(config)
    else:
        yield from no_effect(train, "train", "shards", "shards are for topology: fused; write train.trainers")
        if train.batch_steps is not None:
            yield at("train.batch_steps", "topology split counts episodes; write train.batch_episodes instead")
    yield from _algorithm(config)
    yield from _objective(config)
    yield from _advantage(config)
    yield from _optimizer(config)
    yield from _groups(config)
    if config.policy.model is not None:
        yield from _language_models_only(config)
    else:
        wrong = [key for key in _LANGUAGE_KEYS if is_set(train, key)]
        yield from (at(f"train.{key}", "is for language models; give policy.model, or leave it out") for key in wrong)
    if config.schedule == "sync" and train.max_staleness:
        why = "schedule: sync is as far behind as synchronise.offset says; write schedule: async, or leave it out"
        yield from no_effect(train, "train", "max_staleness", why)


def _language_models_only(config: RunConfig) -> Iterator[Contradiction]:
    train, group = config.train, config.explore.group
    kind = train.algorithm.advantage.kind if train.algorithm.advantage else ""
    if (train.aggregation == "constant_norm") != (train.aggregation_length is not None):
        text = "train.aggregation: constant_norm alone divides by train.aggregation_length; write both, or neither"
        yield at("train.aggregation_length", text)
    if ":" in train.device and train.trainers > 1:
        text = f"is one GPU, and {train.trainers} trainers need one each (train.trainers); write cuda, or auto"
        yield at("train.device", text)
    yield from _sharded(config)
    if kind in GROUP_KINDS and group < 2:
        yield at("explore.group", f"the advantage {kind} compares episodes of one group; write at least 2")


def _sharded(config: RunConfig) -> Iterator[Contradiction]:
    """What several trainers with a shard each need."""
    train = config.train
    if train.sharding is None:
        if train.offload_optimizer:
            yield at("train.offload_optimizer", "is for sharded trainers; write train.sharding: fsdp, or leave it out")
        return
    if train.trainers == 1:
        yield at("train.sharding", "shares the weights out over several trainers; write train.trainers: 2 or more")
    if config.explore.engine.kind == "vllm":
        yield at(
            "train.sharding", "sharded trainers do not score a vLLM server's probe yet; write engine: {kind: local}"
        )
    if train.forward == "decoder":
        yield at("train.forward", "the decoder holds all weights; write packed or auto with train.sharding")


def _groups(config: RunConfig) -> Iterator[Contradiction]:
    train, group = config.train, config.explore.group
    is_compared = config.policy.model is not None and needs_greedy(train.algorithm)
    if is_compared and group < 2:
        text = "is remax, whose groups are sampled attempts and a greedy one; write explore.group: 2 or more"
        yield at((*_PATH, "advantage", "kind"), text)
    elif (is_compared or config.tasks) and (batch := train.batch_episodes or 1) % group:
        what = f"{batch} {'attempts' if config.tasks else 'episodes'} are no whole number of groups"
        fitting = max(round(batch / group), 1) * group
        yield at("train.batch_episodes", f"{what} (explore.group: {group}); write {fitting}")


def _fused_batch(config: RunConfig) -> Iterator[Contradiction]:
    train, games = config.train, config.explore.games_in_flight
    batch = train.batch_steps or games
    fitting = math.lcm(games, train.minibatch) * max(1, round(batch / math.lcm(games, train.minibatch)))
    if train.batch_episodes is not None:
        yield at("train.batch_episodes", "the fused topology counts steps; write train.batch_steps instead")
    if batch % games:
        text = f"{batch} is not a multiple of explore.games_in_flight ({games}); write train.batch_steps: {fitting}"
        yield at("train.batch_steps", text)
    elif batch % train.minibatch:
        text = f"{batch} is not a multiple of train.minibatch ({train.minibatch}); write train.batch_steps: {fitting}"
        yield at("train.batch_steps", text)
    for path, size in (("explore.games_in_flight", games), ("train.minibatch", train.minibatch)):
        if size % train.shards:
            text = f"{size} cannot be shared evenly by {train.shards} shards (train.shards)"
            yield at(path, f"{text}; write {math.ceil(size / train.shards) * train.shards}, or train.shards: 1")
    if train.steps is not None and train.steps < batch:
        text = f"{train.steps} is less than one batch (train.batch_steps: {batch}); write at least that"
        yield at("train.steps", text)


def _algorithm(config: RunConfig) -> Iterator[Contradiction]:
    train = config.train
    chunk = _chunk(config)
    if (rows := max(1, train.minibatch // train.shards // chunk)) % train.accumulate:
        what = f"{rows} chunks of {chunk} decisions" if chunk > 1 else f"train.minibatch ({rows})"
        what += " of each shard" if train.shards > 1 else ""
        text = f"{what} cannot be split into {train.accumulate} equal parts"
        yield at("train.accumulate", f"{text}; write a divisor of it")
    advantage = train.algorithm.advantage
    if config.topology == "split" and advantage and advantage.perspective == "alternate":
        text = "alternate is for topology: fused; write seat (it serves every game)"
        yield at("train.algorithm.advantage.perspective", text)


def _chunk(config: RunConfig) -> int:
    """Decisions of a row: more than one for a network with a memory."""
    memory = getattr(config.policy.network, "memory", None)
    return 1 if memory is None or config.policy.model is not None else int(memory.chunk)


def _objective(config: RunConfig) -> Iterator[Contradiction]:
    terms = config.train.algorithm.objective
    if terms == ():
        yield at(_OBJECTIVE, "has no terms; write at least one, or leave it out for the preset's")
    for place, term in enumerate(terms or ()):
        path = (*_OBJECTIVE, place)
        if term.loss in LOSSES:
            yield from _options(path, term)
            yield from _source(path, term)
    yield from _mu(config)
    yield from _chess(config)
    if config.policy.model is None:
        yield from _boards(config)


def _is_chess(config: RunConfig) -> bool:
    """Chess networks are trained by several devices of one process, which count and average as one."""
    return any(term.loss in CHESS_LOSS_OPTIONS for term in config.train.algorithm.objective or ())


def _chess(config: RunConfig) -> Iterator[Contradiction]:
    """Chess losses train heads that a chess network has, and nothing else does; they do not mix with others."""
    network, terms = config.policy.network, config.train.algorithm.objective or ()
    chess = [place for place, term in enumerate(terms) if term.loss in CHESS_LOSS_OPTIONS]
    if not chess:
        return
    if not isinstance(network, ChessResidualConfig | ChessAttentionConfig) or config.policy.model is not None:
        text = f"{terms[chess[0]].loss} needs policy.network.kind: chess_residual or chess_attention"
        yield at((*_OBJECTIVE, chess[0], "loss"), text)
        return
    others = [place for place in range(len(terms)) if place not in chess]
    if others:
        text = f"{terms[others[0]].loss} cannot stand beside {terms[chess[0]].loss}; write chess losses alone"
        yield at((*_OBJECTIVE, others[0], "loss"), text)
    train = config.train
    if train.minibatch % (train.accumulate * train.trainers):
        rows = f"train.minibatch {train.minibatch}" + (f" in {train.accumulate} parts" if train.accumulate > 1 else "")
        yield at("train.trainers", f"{train.trainers} trainers cannot share {rows} evenly; write another number")
    heads = network.heads
    known = {"chess_policy": tuple(heads.policy), "chess_moves_left": tuple(heads.moves_left)}
    for place in chess:
        term = terms[place]
        names = known.get(term.loss, tuple(heads.value))
        head = term.options.get("head")
        if head is not None and head not in names:
            text = f"no such head, {show(head)}; policy.network.heads has {', '.join(names) or 'none'}"
            yield at((*_OBJECTIVE, place, "options", "head"), text)


def _options(path: Path, term: TermConfig) -> Iterator[Contradiction]:
    known = loss_options(term.loss)
    for name, value in term.options.items():
        where = (*path, "options", name)
        if name not in known:
            yield at(where, f"the loss {term.loss} has no such option; its options: {', '.join(known) or 'none'}")
        elif not known[name].accepts(value):
            yield at(where, f"the loss {term.loss} expects {known[name].expected}, got {show(value)}")


def _source(path: Path, term: TermConfig) -> Iterator[Contradiction]:
    allowed = loss_sources(term.loss)
    if term.source not in allowed:
        text = f"the loss {term.loss} cannot learn from {term.source}; write {' or '.join(allowed)}"
        yield at((*path, "source"), text)
    elif term.loss == "kl" and term.source != "on_policy" and term.options.get("reference") != "base":
        text = f"rows of {term.source} have no behaviour probabilities; write reference: base, or source: on_policy"
        yield at((*path, "source"), text)


def _mu(config: RunConfig) -> Iterator[Contradiction]:
    mu, terms = config.train.algorithm.mu, config.train.algorithm.objective or ()
    shared = [place for place, term in enumerate(terms) if term.share]
    if mu is None:
        for place in shared:
            text = f"is {terms[place].share}, but train.algorithm.mu is not given; write mu: {{peak: 0.1}}, or no share"
            yield at((*_OBJECTIVE, place, "share"), text)
        return
    if not shared:
        yield at((*_PATH, "mu"), "has no effect: no term of train.algorithm.objective has a share")
    if (together := mu.warmup_fraction + mu.decay_fraction) > 1:
        text = f"and train.algorithm.mu.warmup_fraction are {together:g} of the run together; write at most 1"
        yield at((*_PATH, "mu", "decay_fraction"), text)


def _boards(config: RunConfig) -> Iterator[Contradiction]:
    algorithm, instead = config.train.algorithm, "is for language models; give policy.model, or"
    if algorithm.kl_reward is not None:
        yield at((*_PATH, "kl_reward"), f"{instead} leave it out")
    if algorithm.advantage is not None and (kind := algorithm.advantage.kind) not in _BOARD_KINDS:
        yield at((*_PATH, "advantage", "kind"), f"{kind} {instead} write {', '.join(_BOARD_KINDS[:-1])} or custom")
    for place, term in enumerate(algorithm.objective or ()):
        path = (*_OBJECTIVE, place)
        if term.loss == "dpo":
            yield at((*path, "loss"), f"dpo {instead} write another loss")
        if term.options.get("reference") == "base":
            yield at((*path, "options", "reference"), f"base {instead} write behaviour")
        if term.options.get("importance") in ("truncate", "mask"):
            yield at((*path, "options", "importance"), f"{instead} write none")


def _advantage(config: RunConfig) -> Iterator[Contradiction]:
    path = "train.algorithm.advantage"
    if (advantage := config.train.algorithm.advantage) is None:
        return
    for keys, kinds in _ADVANTAGE_KEYS.items():
        if advantage.kind not in kinds:
            yield from no_effect(advantage, path, keys, f"{path}.kind is {advantage.kind}")
    if advantage.kind == "opmd" and advantage.baseline == "mean":
        yield from no_effect(advantage, path, "tau", f"{path}.baseline is mean")


def _optimizer(config: RunConfig) -> Iterator[Contradiction]:
    optimizer, path = config.train.optimizer, "train.optimizer"
    if optimizer.kind == "sgd":
        yield from no_effect(optimizer, path, "eps beta1 beta2", "train.optimizer.kind is sgd")
    else:
        yield from no_effect(optimizer, path, "momentum nesterov", f"train.optimizer.kind is {optimizer.kind}")
    if optimizer.decay_rules and not optimizer.weight_decay:
        yield at(f"{path}.decay_rules", "has no effect: train.optimizer.weight_decay is 0")
    if optimizer.pieces:
        why = "train.optimizer.pieces says how the rate moves"
        yield from no_effect(optimizer, path, "schedule final_fraction warmup_fraction learning_rate", why)
        by_steps = [piece.steps is not None for piece in optimizer.pieces]
        if any((piece.steps is None) == (piece.share is None) for piece in optimizer.pieces) or len(set(by_steps)) > 1:
            yield at(f"{path}.pieces", "give every piece its steps, or every piece its share of the run")
        elif by_steps[0] and config.train.trainers > 1 and not _is_chess(config):
            yield at(f"{path}.pieces", "several trainers count by the share of the run; write share instead of steps")
    if optimizer.critic_learning_rate is not None and not (
        config.policy.model and needs_critic(config.train.algorithm)
    ):
        yield at(f"{path}.critic_learning_rate", "is for the critic of a language model; leave it out")
    if config.policy.model is not None:
        for key in ("beta1", "beta2", "momentum", "nesterov", "decay_rules", "pieces"):
            if is_set(optimizer, key):
                yield at(f"{path}.{key}", "is for networks; leave it out, or leave out policy.model")
        if optimizer.kind == "nadamw":
            yield at(f"{path}.kind", "nadamw is for networks; write adamw, or leave out policy.model")
        if config.train.swa is not None:
            yield at("train.swa", "is for networks; leave it out, or leave out policy.model")
    if config.train.swa is not None and config.train.trainers > 1 and not _is_chess(config):
        yield at(
            "train.trainers", "weights are averaged by one trainer; write train.trainers: 1, or leave out train.swa"
        )
    if optimizer.schedule == "constant":
        yield from no_effect(optimizer, path, "final_fraction", "train.optimizer.schedule is constant")
