"""Configs of many runs: those that differ in name and seed alone, as a study's do, are read once.

Invariant: what is given is what `load_config` would give.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from pathlib import Path

from ludus.config import RunConfig, load_config

MOST_KEPT = 500
MOST_BYTES = 100_000
"""A larger file is read each time."""
_NAME = re.compile(rb"^name: ([A-Za-z_][A-Za-z0-9_]*)\n", re.MULTILINE)
_SEED = re.compile(rb"^seed: (0|[1-9][0-9]{0,17})\n", re.MULTILINE)
_NO_TEXT = {b"true", b"false", b"yes", b"no", b"on", b"off", b"null", b"y", b"n"}
"""Words that YAML takes for something else."""


class ConfigMemo:
    """The configs that were read last. One thread at a time."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, RunConfig] = OrderedDict()

    def load(self, path: Path) -> RunConfig:
        """The config of a run.

        Raises:
            ConfigError: as `load_config` does.
        """
        key, name, seed = _split(path)
        config = self._kept.get(key) if key else None
        if config is None:
            config = load_config(path)
            if key:
                self._kept[key] = config
                while len(self._kept) > MOST_KEPT:
                    self._kept.popitem(last=False)
            return config
        self._kept.move_to_end(key)
        return config.model_copy(update={"name": name, "seed": seed})


def _split(path: Path) -> tuple[bytes, str, int]:
    """What is left of a config without name and seed, and these; nothing where they are not plain to see."""
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1)
    except OSError:
        return b"", "", 0
    names, seeds = _NAME.findall(text), _SEED.findall(text)
    if len(text) > MOST_BYTES or len(names) != 1 or len(seeds) != 1 or names[0].lower() in _NO_TEXT:
        return b"", "", 0
    return _SEED.sub(b"\n", _NAME.sub(b"\n", text)), names[0].decode(), int(seeds[0])
