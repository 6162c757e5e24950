"""Which keys may change when a run goes on.

Invariant: what was trained so far stays true. Keys that decide what is played and learned are those of the run's first
start; those that say how long, how often and on which machine may change: `MAY_CHANGE` lists them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ludus.config.load import parse_config
from ludus.config.problems import Path, dotted, shorten
from ludus.config.run import RunConfig
from ludus.errors import ConfigError

# A key stands for everything under it.
MAY_CHANGE: tuple[str, ...] = (
    "mode",
    "train.steps",
    "train.max_skipped",
    "explore.deadline_s",
    "explore.workers",
    "league.snapshot_every",
    "evaluate",
    "checkpoint",
    "record",
    "telemetry",
    "runtime",
)


def check_resumable(saved: str, config: RunConfig) -> None:
    """Check a resolved config against the `config.yaml` of the run that it is to go on with.

    Raises:
        ConfigError: the saved config cannot be read, or a key differs that may not; one line for each.
    """
    before = parse_config(saved, "config.yaml").model_dump(mode="json")
    after = config.model_dump(mode="json")
    lines = [
        f"{dotted(path)}: the run has {_show(old)}, now {_show(new)}; write it as before, or choose another --run-dir"
        for path, old, new in _differences(before, after, ())
        if not any(dotted(path[: key.count(".") + 1]) == key for key in MAY_CHANGE)
    ]
    if lines:
        raise ConfigError(*lines)


def _differences(before: Any, after: Any, path: Path) -> Iterator[tuple[Path, Any, Any]]:
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        for key in before:
            yield from _differences(before[key], after[key], (*path, key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _differences(old, new, (*path, index))
    elif before != after:
        yield path, before, after


def _show(value: Any) -> str:
    return shorten(json.dumps(value, ensure_ascii=False))
