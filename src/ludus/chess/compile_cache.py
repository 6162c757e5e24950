"""Compiled programs of a network are kept on disk, so that a restarted trainer begins in seconds.

In `JAX_COMPILATION_CACHE_DIR` where that is set, else in `ludus/jax` of the user's cache folder. JAX names entries by
the program, its options and the machine, so a stale one is never used.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jax

_AT_LEAST_S = 0.5


def use_compile_cache(folder: Path | None = None) -> Path:
    """Keep what JAX compiles from now on. Returns where."""
    named = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    chosen = folder or (Path(named) if named else home / "ludus" / "jax")
    config: Any = jax.config
    config.update("jax_compilation_cache_dir", str(chosen))
    config.update("jax_persistent_cache_min_compile_time_secs", _AT_LEAST_S)
    return chosen
