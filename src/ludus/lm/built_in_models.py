"""Models that ludus brings itself, by names that look like hub ids; made or fetched when they are first asked for.

Invariant: what was made once stays as it is, in the user's cache. To add a model, put its name and a function that
writes it to a folder into `BUILT_IN`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ludus.lm.fetch_model import fetch_smollm2
from ludus.lm.tiny_model import make_tiny_model

BUILT_IN: dict[str, Callable[[Path], Path]] = {
    "ludus/mini": partial(make_tiny_model, layers=2, width=64),
    "ludus/tiny": make_tiny_model,
    "ludus/smollm2": fetch_smollm2,
}


def built_in_folder(name: str) -> Path:
    """The folder of a built-in model, which is written first if need be."""
    folder = cache_directory() / name.partition("/")[2]
    return folder if (folder / "config.json").is_file() else BUILT_IN[name](folder)


def cache_directory() -> Path:
    """Where built-in models are kept on this machine."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "ludus" / "models"
