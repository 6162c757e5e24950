"""`ludus bench watch`: what it costs a run that somebody watches it.

A run of its own process (the Connect Four demo's network, fused) that a client attaches to and leaves again, in turn.
The client subscribes to everything, as a dashboard does. Counted are the steps of the run per CPU-second of its
process, so that what the client itself does on another core is not in it.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from ludus.bench.measuring import Figure
from ludus.daemon.sockets import connect
from ludus.errors import LudusError
from ludus.runtime.fork_launcher import process_cpu_s
from ludus.storage.jsonl import read_jsonl

UNIT = "steps per CPU-second"
PEER = "nobody watching"
START_S = 120.0
SETTLE_S = 1.0
CONFIG = """
name: watched
games: [pgx:connect_four]
policy: {network: {kind: mlp, hidden: [128, 128]}}
explore: {games_in_flight: 512}
train: {steps: 100000000000, batch_steps: 8192, minibatch: 1024, epochs: 1}
evaluate: {against: [random], games: 10, every: 500000}
telemetry: {tensorboard: false, every_s: 0.1}
"""


def bench_watch(*, rounds: int, seconds: float) -> list[Figure]:
    """Steps per CPU-second with and without a client, in turn."""
    sides: dict[bool, list[float]] = {True: [], False: []}
    with (
        tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder,
        training_run(Path(folder)) as (pid, run),
    ):
        for number in range(2 * rounds):
            is_watched = number % 4 in (1, 2)  # neither side always comes first
            sides[is_watched].append(_measure(pid, run, seconds, is_watched=is_watched))
    return [Figure.against("watched", median(sides[True]), UNIT, PEER, median(sides[False]))]


@contextlib.contextmanager
def training_run(folder: Path) -> Iterator[tuple[int, Path]]:
    """A run that trains while the context is open: its process and its directory."""
    config, run = folder / "watched.yaml", folder / "run"
    config.write_text(CONFIG)
    command = [sys.executable, "-P", "-m", "ludus.cli.app", "run", str(config), "--run-dir", str(run), "--quiet"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        _await_training(process, run)
        yield process.pid, run
    finally:
        process.terminate()
        process.wait()


def steps_and_cpu_s(pid: int, run: Path) -> tuple[int, float]:
    """The steps that a run has trained on, and the CPU-seconds of its process.

    Raises:
        LudusError: it has ended.
    """
    steps, cpu_s = _steps(run), process_cpu_s(pid)
    if cpu_s is None:
        raise LudusError("the run that is watched has ended")
    return steps, cpu_s


def _measure(pid: int, run: Path, seconds: float, *, is_watched: bool) -> float:
    client = _attach(run) if is_watched else None
    _let_pass(client, SETTLE_S)
    steps, cpu_s = steps_and_cpu_s(pid, run)
    _let_pass(client, seconds)
    steps_after, cpu_after_s = steps_and_cpu_s(pid, run)
    if client is not None:
        client.close()
    return (steps_after - steps) / (cpu_after_s - cpu_s)


def _attach(run: Path) -> socket.socket:
    client = connect(run)
    client.sendall(json.dumps({"type": "subscribe", "payload": {}, "id": 1}).encode() + b"\n")
    return client


def _let_pass(client: socket.socket | None, seconds: float) -> None:
    """Wait, reading what there is."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if client is None:
            time.sleep(left)
        elif select.select([client], [], [], left)[0]:
            client.recv(1 << 20)


def _steps(run: Path) -> int:
    newest = 0
    for line in read_jsonl(run / "metrics.jsonl"):
        if "loop/steps_per_s" in line:
            newest = int(line["step"])
    return newest


def _await_training(process: subprocess.Popen[bytes], run: Path) -> None:
    end = time.monotonic() + START_S
    while not _steps(run) or not (run / "control.sock").exists():
        if process.poll() is not None or time.monotonic() > end:
            raise LudusError("the run that is to be watched does not train")
        time.sleep(0.2)
