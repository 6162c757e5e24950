"""Where runs differ: keys of their configs, and results, also at the last step that all of them have reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ludus.config import load_config
from ludus.reports.curves import read_curves
from ludus.reports.run_facts import RunFacts
from ludus.storage.run_directory import find_run


def config_keys(run: Path) -> dict[str, Any]:
    """Every key of a run's config, by its path."""
    return dict(_flat(load_config(run / "config.yaml").model_dump(mode="json"), ""))


def differing_keys(configs: Sequence[Mapping[str, Any]]) -> list[tuple[str, tuple[Any, ...]]]:
    """The keys that are not the same in all configs, with their values."""
    keys = dict.fromkeys(key for config in configs for key in config)
    rows = [(key, tuple(config.get(key) for config in configs)) for key in keys]
    return [(key, values) for key, values in rows if any(value != values[0] for value in values)]


def shared_results(facts: Sequence[RunFacts]) -> Iterator[tuple[str, list[float | None]]]:
    """Each measure: the newest of every run, and that at the last step that all have reached."""
    curves = [read_curves(find_run(each.path).metrics) for each in facts]
    for name in dict.fromkeys(name for each in facts for name in each.result):
        yield name, [each.result.get(name) for each in facts]
        points = [each.get(name, []) for each in curves]
        if all(points) and len({each[-1][0] for each in points}) > 1:
            shared = min(each[-1][0] for each in points)
            until = [[value for step, value in each if step <= shared] for each in points]
            if all(until):
                yield f"{name} at step {shared:,.0f}", [values[-1] for values in until]


def _flat(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    """Every key with its value; entries of lists by their number."""
    inner = dict(enumerate(value)) if isinstance(value, list) and any(isinstance(x, dict) for x in value) else value
    if isinstance(inner, dict) and inner:
        for name, below in inner.items():
            yield from _flat(below, f"{key}.{name}" if key else str(name))
    else:
        yield key, value
