"""The persistent compile cache: a second start reads what the first compiled, and damage costs a compilation only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import json, sys
from ludus.chess import compile_cache
compile_cache._AT_LEAST_S = 0.0  # also what compiles fast
folder = compile_cache.use_compile_cache()
import jax, jax.numpy as jnp
counts = {"hits": 0, "misses": 0}
def listen(event, **_):
    for name in counts:
        if event == f"/jax/compilation_cache/cache_{name}":
            counts[name] += 1
jax.monitoring.register_event_listener(listen)
found = jax.jit(lambda x: jnp.tanh(x @ x).sum())(jnp.ones((8, 8)))
print(json.dumps({**counts, "folder": str(folder), "value": float(found)}))
"""


def start(**environment: str) -> dict[str, Any]:
    """One process that compiles, with the cache where the environment says."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_COMP", "XDG_CACHE"))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**kept, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_second_start_compiles_nothing_and_a_damaged_cache_breaks_nothing(tmp_path: Path) -> None:
    cache = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "compiled")}
    first, second = start(**cache), start(**cache)
    assert first["folder"] == str(tmp_path / "compiled")
    assert first["misses"] > 0
    assert first["hits"] == 0
    assert (second["hits"], second["misses"]) == (first["misses"], 0)
    entries = [path for path in (tmp_path / "compiled").iterdir() if path.name.endswith("-cache")]
    assert entries
    for entry in entries:
        entry.write_bytes(b"\\x00damaged" + entry.read_bytes()[:40])
    damaged = start(**cache)
    assert damaged["value"] == first["value"]
    assert damaged["hits"] == 0


def test_without_a_name_the_cache_is_in_the_users_folder(tmp_path: Path) -> None:
    assert start(XDG_CACHE_HOME=str(tmp_path))["folder"] == str(tmp_path / "ludus" / "jax")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_breaks_nothing(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    assert start(JAX_COMPILATION_CACHE_DIR=str(tmp_path / "closed"))["hits"] == 0


def test_a_name_that_is_a_file_breaks_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert start(JAX_COMPILATION_CACHE_DIR=str(tmp_path / "file"))["value"] == pytest.approx(64.0)
