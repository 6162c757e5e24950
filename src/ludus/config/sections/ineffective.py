"""Settings that would change nothing, because another key turns off what they set.

Only values that differ from their default count: a resolved config holds all defaults and must load again.
To add one: a row in the table of the part it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ludus.config.base import Model
from ludus.config.problems import Contradiction, Path
from ludus.config.run import RunConfig

_ADVANTAGE_KEYS = {
    "rho_clip c_clip": ("vtrace",),
    "lam": ("gae", "vtrace"),
    "gamma": ("gae", "vtrace", "monte_carlo", "remax"),
    "scale scale_eps": ("group",),
    "baseline tau": ("opmd",),
    "baseline_shift": ("asymre",),
}
"""Keys of an advantage, and the kinds that look at them."""


def ineffective_settings(config: RunConfig) -> Iterator[Contradiction]:
    """Every key that was set to no effect."""
    yield from _flow(config)
    yield from _algorithm(config)
    yield from _optimizer(config)
    yield from _opponents(config)


def _differs(model: Model, key: str) -> bool:
    return bool(getattr(model, key) != type(model).model_fields[key].get_default(call_default_factory=True))


def _set(model: Any, prefix: Path, keys: str, why: str) -> Iterator[Contradiction]:
    for key in keys.split():
        if _differs(model, key):
            yield Contradiction(path=(*prefix, key), text=f"has no effect: {why}")


def _flow(config: RunConfig) -> Iterator[Contradiction]:
    sampling = "capacity min_size samples_per_insert reuse cooldown sampler priority priority_exponent"
    if config.topology == "fused":
        yield from _set(config.buffer, ("buffer",), sampling, "there is no buffer in topology: fused")
        yield from _set(config.explore, ("explore",), "workers", "topology: fused plays in one process")
    else:
        yield from _set(config.train, ("train",), "shards", "shards are for topology: fused; write train.trainers")
        yield from _set(
            config.record, ("record",), "sample_every sample_games", "topology: split records every episode"
        )
        if config.schedule == "sync" and config.mode == "both":
            why = "schedule: sync trains once on the episodes just played; write schedule: async"
            yield from _set(config.buffer, ("buffer",), "reuse cooldown sampler", why)
        if config.buffer.sampler != "prioritised":
            why = f"buffer.sampler is {config.buffer.sampler}; write sampler: prioritised"
            yield from _set(config.buffer, ("buffer",), "priority priority_exponent", why)
    if config.schedule == "sync" and config.train.max_staleness:
        why = "schedule: sync is as far behind as synchronise.offset says; write schedule: async, or leave it out"
        yield from _set(config.train, ("train",), "max_staleness", why)


def _algorithm(config: RunConfig) -> Iterator[Contradiction]:
    path: Path = ("train", "algorithm", "advantage")
    if (advantage := config.train.algorithm.advantage) is None:
        return
    for keys, kinds in _ADVANTAGE_KEYS.items():
        if advantage.kind not in kinds:
            yield from _set(advantage, path, keys, f"{'.'.join(map(str, path))}.kind is {advantage.kind}")
    if advantage.kind == "opmd" and advantage.baseline == "mean":
        yield from _set(advantage, path, "tau", f"{'.'.join(map(str, path))}.baseline is mean")


def _optimizer(config: RunConfig) -> Iterator[Contradiction]:
    optimizer, path = config.train.optimizer, ("train", "optimizer")
    if optimizer.kind != "adamw":
        why = f"train.optimizer.kind is {optimizer.kind}; write kind: adamw"
        yield from _set(optimizer, path, "weight_decay", why)
    if optimizer.kind == "sgd":
        yield from _set(optimizer, path, "eps", "train.optimizer.kind is sgd")
    if optimizer.schedule == "constant":
        yield from _set(optimizer, path, "final_fraction", "train.optimizer.schedule is constant")


def _opponents(config: RunConfig) -> Iterator[Contradiction]:
    for i, opponent in enumerate(config.league.opponents):
        for key, kind in (("players", "fixed"), ("weighting", "pfsp"), ("name", "custom")):
            if opponent.kind != kind:
                why = f"league.opponents.{i}.kind is {opponent.kind}; {key} is for {kind}"
                yield from _set(opponent, ("league", "opponents", i), key, why)
