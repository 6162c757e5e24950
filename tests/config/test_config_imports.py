"""The config room is light, and says what it offers."""

from __future__ import annotations

import subprocess
import sys

import ludus.config

HEAVY = ("jax", "torch", "ray", "textual", "flax", "pyspiel", "pgx", "matplotlib", "pyarrow", "numpy")


def test_importing_the_config_room_loads_nothing_heavy() -> None:
    code = f"import sys, ludus.config; print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=_environment())
    assert found.stdout.strip() == "[]"


def test_what_the_room_offers_is_what_it_lists() -> None:
    public = {name for name, value in vars(ludus.config).items() if not name.startswith("_") and not _is_module(value)}
    assert public == set(ludus.config.__all__)
    assert ludus.config.__all__ == sorted(
        ludus.config.__all__, key=lambda name: (not name.isupper(), name[0].islower(), name)
    )


def _is_module(value: object) -> bool:
    return type(value).__name__ == "module"


def _environment() -> dict[str, str]:
    import os
    from pathlib import Path

    return {**os.environ, "PYTHONPATH": str(Path(ludus.config.__file__).parents[2])}
