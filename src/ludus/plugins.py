"""A user's own code: games, players, transforms and opponent samplers, by entry point or `--plugin file.py`.

A config can only name what is registered; it can never name code to import.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from ludus.errors import ConfigError


def load_plugins(files: Iterable[str | Path]) -> None:
    """Run each file once, so that what it registers is known by name."""
    for file in files:
        _load_file(Path(file).resolve())


@cache
def _load_file(path: Path) -> None:
    if not path.is_file():
        raise ConfigError(f"--plugin {path}: no such file")
    name = f"ludus_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"--plugin {path}: expected a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigError(f"--plugin {path}: {type(error).__name__}: {error}") from error


@cache
def entry_points(group: str) -> dict[str, importlib.metadata.EntryPoint]:
    """Installed entry points of a group, by name; none is loaded yet."""
    return {point.name: point for point in importlib.metadata.entry_points(group=group)}


def load_entry_point(group: str, name: str) -> Any | None:
    """The object behind an entry point, or None when nothing of that name is installed."""
    point = entry_points(group).get(name)
    return None if point is None else point.load()
