"""Run `ludus` as a user does, kill it at chosen moments, and describe exactly what is in a run directory."""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ludus.storage.checkpoints import CheckpointStore
from ludus.storage.jsonl import read_jsonl
from ludus.storage.segment_reader import SegmentReader

START_DEADLINE_S = 120.0
RUN_DEADLINE_S = 300.0


def start(config: Path, run_dir: Path, *overrides: str) -> subprocess.Popen[bytes]:
    """Start `ludus run` in a process group of its own."""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    command = [
        sys.executable,
        "-m",
        "ludus.cli.app",
        "run",
        str(config),
        *overrides,
        "--run-dir",
        str(run_dir),
        "--quiet",
    ]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )


def finish(process: subprocess.Popen[bytes], deadline_s: float = RUN_DEADLINE_S) -> tuple[int, str]:
    """Wait for the end; returns exit code and what was said on stderr."""
    _, error = process.communicate(timeout=deadline_s)
    return process.returncode, error.decode(errors="replace")


def kill(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL the process alone: its workers must notice by themselves."""
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)


def count_events(run_dir: Path, kind: str) -> int:
    path = run_dir / "events.jsonl"
    return sum(event.get("event") == kind for event in read_jsonl(path)) if path.exists() else 0


def wait_for_event(process: subprocess.Popen[bytes], run_dir: Path, kind: str, number: int) -> bool:
    """Wait until the n-th event of a kind is in the log; False when the process ended first."""
    end = time.monotonic() + START_DEADLINE_S
    while time.monotonic() < end:
        if count_events(run_dir, kind) >= number:
            return True
        try:
            process.wait(0.02)
        except subprocess.TimeoutExpired:
            continue
        return False
    raise AssertionError(f"no event {kind!r} within {START_DEADLINE_S} s")


def run_with_kills(config: Path, run_dir: Path, *, kills: int, longest_s: float, seed: int) -> int:
    """Run to the end, killing up to `kills` times at random moments after a start; returns how many kills happened."""
    dice = random.Random(seed)
    done = 0
    while done < kills:
        starts = count_events(run_dir, "started")
        process = start(config, run_dir)
        if wait_for_event(process, run_dir, "started", starts + 1):
            try:
                process.wait(dice.uniform(0.0, longest_s))
            except subprocess.TimeoutExpired:
                kill(process)
                done += 1
                continue
        code, error = finish(process)
        assert code == 0, error
        return done
    code, error = finish(start(config, run_dir))
    assert code == 0, error
    return done


def describe(run_dir: Path) -> dict[str, Any]:
    """What must be equal between a broken and an unbroken synchronous run."""
    checkpoint = CheckpointStore(run_dir / "checkpoints", keep=2).latest(strict=True)
    assert checkpoint is not None
    files = {path.name: _sha256(path) for path in sorted(checkpoint.path.glob("*.safetensors"))}
    return {
        "files": files,
        "progress": checkpoint.state["progress"],
        "league": checkpoint.state["league"],
        "episodes": episodes(run_dir),
    }


def episodes(run_dir: Path) -> dict[str, tuple[Any, ...]]:
    """Every recorded episode by id: what was played and what came of it."""
    found: dict[str, tuple[Any, ...]] = {}
    for _, table in SegmentReader(run_dir / "episodes").scan():
        for row in table.to_pylist():
            assert row["id"] not in found, "an episode is there twice"
            found[row["id"]] = (row["task"], row["policies"], row["versions"], row["returns"], row["move_actions"])
    return found


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
