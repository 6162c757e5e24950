"""Sides of a benchmark run in processes of their own, so that none inherits another's threads, caches or memory."""

from __future__ import annotations

import json
import subprocess
import sys

from ludus.errors import LudusError


def run_side(module: str, *arguments: object, seconds: float) -> dict[str, float]:
    """Run `python -m module ARGUMENTS SECONDS`, which prints one JSON object on its last line."""
    command = [sys.executable, "-m", module, *map(str, arguments), str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds * 10 + 600, check=False)
    if done.returncode != 0:
        raise LudusError(f"bench side {' '.join(map(str, arguments))} failed:\n{done.stderr[-2000:]}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures
