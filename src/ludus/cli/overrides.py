"""Telling a config file from `key.path=value` on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def split_config(first: Path | None, rest: Sequence[str] | None) -> tuple[Path | None, list[str]]:
    """The file, if one was named, and the overrides: `ludus run seed=3` has only the latter."""
    overrides = list(rest or [])
    if first is not None and "=" in str(first) and not first.exists():
        return None, [str(first), *overrides]
    return first, overrides
