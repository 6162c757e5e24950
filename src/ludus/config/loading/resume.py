"""Which keys may change when a run is resumed, and which while it is going.

Invariant: what was trained so far stays true. Keys that decide what is played and learned are those of the run's first
start; those that say how long, how often and on which machine may change: `MAY_CHANGE` lists them. That a broken run
ends with the same bits as an unbroken one is promised for an unchanged config only: a minibatch that is cut or shared
otherwise adds up in another order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ludus.config.describe.documents import dump_config
from ludus.config.loading.derive import fill_defaults, resolve
from ludus.config.loading.load import parse_config
from ludus.config.loading.slots import ANY_NAME
from ludus.config.problems import Path, dotted, shorten
from ludus.config.run import RunConfig
from ludus.errors import ConfigError

# A key stands for everything under it.
MAY_CHANGE: tuple[str, ...] = (
    "mode",
    "train.steps",
    "train.updates",
    "train.hours",
    "train.max_skipped",
    "train.tokens_per_micro_batch",
    "train.device",
    "train.forward",
    "train.activation_checkpointing",
    "train.trainers",
    "train.sharding",
    "train.offload_optimizer",
    "cycle",
    "buffer.feeds",
    "buffer.loader.command",
    "buffer.capacity",
    "explore.deadline_s",
    "explore.workers",
    "explore.max_workers",
    "explore.engine.arguments",
    "explore.engine.command",
    "explore.engine.most_in_flight",
    "explore.engine.most_mismatch",
    "explore.engine.servers",
    "explore.engine.start_s",
    "explore.engine.tensor_parallel",
    "explore.engine.update",
    "explore.engine.url",
    "explore.engine.patience_s",
    "explore.endpoints.NAME.url",
    "explore.endpoints.NAME.key_variable",
    "explore.endpoints.NAME.attempt_s",
    "explore.endpoints.NAME.retries",
    "explore.endpoints.NAME.max_in_flight",
    "explore.endpoints.NAME.prompt_price",
    "explore.endpoints.NAME.completion_price",
    "explore.endpoints.NAME.max_cost",
    "league.snapshot_every",
    "population.max_histories",
    "population.stop",
    "evaluate",
    "checkpoint",
    "record",
    "telemetry",
    "runtime",
)
# Entries may come and go: the keys that name them say which must be there.
OPEN_MAPPINGS: tuple[Path, ...] = (("explore", "endpoints"),)
SETTABLE: Mapping[str, str] = {
    "train.steps": "steps after which the run ends",
    "train.updates": "updates after which the run ends",
    "train.hours": "hours of training after which the run ends",
    "checkpoint.every": "updates between checkpoints",
    "evaluate.every": "steps between evaluations",
    "league.snapshot_every": "steps between snapshots for the league",
    "telemetry.every_s": "seconds between metric lines",
}
"""Keys that may be changed while a run is going: they say how long and how often, not what is learnt."""


def check_resumable(saved: str, config: RunConfig) -> None:
    """Check a resolved config against the `config.yaml` of the run to resume.

    Raises:
        ConfigError: the saved config cannot be read, or a key differs that may not; one line for each.
    """
    changed = changed_keys(saved, config)
    if changed:
        raise ConfigError(
            *(f"{dotted(path)}: {what}; write it as before, or choose another --run-dir" for path, what in changed)
        )


def changed_keys(saved: str, config: RunConfig, *, also: Sequence[str] = ()) -> list[tuple[Path, str]]:
    """The keys that may not change and did, each with what it was and is.

    Args:
        saved: the `config.yaml` of the run.
        config: the resolved config to resume with.
        also: keys of `MAY_CHANGE` that may not.
    """
    before, after = parse_config(saved, "config.yaml", stored=True), config
    if not before.stages:
        before = fill_defaults(before)  # a run of an earlier version lacks the keys that are newer than it
    may_change = [key.split(".") for key in MAY_CHANGE if key not in also]
    if (before.mode == "evaluate") != (after.mode == "evaluate"):
        # Such a run has no trainer's state, and another nothing but that.
        may_change.remove(["mode"])
    elif after.mode == "evaluate" and _run_of(before) == _run_of(after):
        may_change.append(["policy", "start"])  # another version of the same run
    return [
        (path, f"the run has {_show(old)}, now {_show(new)}")
        for path, old, new in _differences(before.model_dump(mode="json"), after.model_dump(mode="json"), ())
        if not any(_is_within(path, key) for key in may_change)
    ]


def _run_of(config: RunConfig) -> str:
    return (config.policy.start or "").partition("@")[0]


def _differences(before: Any, after: Any, path: Path) -> Iterator[tuple[Path, Any, Any]]:
    are_mappings = isinstance(before, dict) and isinstance(after, dict)
    if are_mappings and (before.keys() == after.keys() or path in OPEN_MAPPINGS):
        for key in (key for key in before if key in after):
            yield from _differences(before[key], after[key], (*path, key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _differences(old, new, (*path, index))
    elif before != after:
        yield path, before, after


def _is_within(path: Path, key: list[str]) -> bool:
    """Whether a key stands for a path; `NAME` in it is any name."""
    return len(path) >= len(key) and all(
        wanted in (ANY_NAME, str(part)) for wanted, part in zip(key, path[: len(key)], strict=True)
    )


def _show(value: Any) -> str:
    return shorten(json.dumps(value, ensure_ascii=False))


def with_values(config: RunConfig, values: Mapping[str, Any]) -> RunConfig:
    """A resolved config with other values at some keys.

    Raises:
        ConfigError: a key may not be set while the run is going, or a value is not one that it can have.
    """
    unknown = [key for key in values if key not in SETTABLE]
    if unknown:
        names = ", ".join(SETTABLE)
        raise ConfigError(*(f"{key}: cannot be set while a run is going; these can: {names}" for key in unknown))
    overrides = [f"{key}={json.dumps(value)}" for key, value in values.items()]
    return resolve(parse_config(dump_config(config), "config.yaml", overrides))
