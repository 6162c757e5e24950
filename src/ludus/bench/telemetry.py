"""`ludus bench telemetry`: how much longer a step takes because of where metrics go, working or failing.

Each side is a fresh process in which a run with sinks and one without take turns; the median ratio of all rounds is
reported, 1.00 being no change. The first side has no sinks in either run: how far it is from 1.00 is the noise. On a
busy machine the CPU time of the process that trains says more than the clock on the wall.

Both runs of a side are Connect Four, with ten metric lines a second: ten times the default. Each trains for a window
while the other is paused, so that whatever else the machine does meets both alike. A side measures the median over the
windows of the time for a step beside the mean of the windows before and after it, both times, the same in CPU time of
the process that trains, and what the sinks lost.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ludus.bench.loop import SHARED, WARM_UP_UPDATES, wait_for
from ludus.bench.measuring import Figure, Measured, descendants, run_rounds, run_this_side
from ludus.runtime import limit_threads
from ludus.storage.filesystem import FileSystem, Piece
from ludus.storage.jsonl import read_jsonl
from ludus.telemetry import Sink, TensorBoardSink

PEER = "no sinks"
_NANOSECONDS = 1e9
CONFIG = """
name: bench_telemetry
games: [pgx:connect_four]
topology: fused
explore: {games_in_flight: 64}
train: {steps: 1000000000000, batch_steps: 1024, minibatch: 256, epochs: 4}
"""
WINDOW_S = 0.5
KILL_EVERY_S = 2.0
UNREACHABLE = "http://127.0.0.1:9"


def bench_telemetry(*, rounds: int, seconds: float) -> list[Figure]:
    """Run all sides in turn, `rounds` times, and report medians."""
    results: dict[str, list[Measured]] = {side: [] for side in SIDES}
    for side, result in run_rounds("ludus.bench.telemetry", list(SIDES), rounds=rounds, seconds=seconds):
        results[side].append(result)
        found = f"{result['ratio']:.3f}, CPU {result['cpu_ratio']:.3f}, {result['dropped']:.0f} lines lost"
        print(f"{side}: {found}", file=sys.stderr)
    wall = [_figure(side, found) for side, found in results.items()]
    return wall + [_figure(side, found, "cpu_") for side, found in results.items()]


def _figure(side: str, results: list[Measured], clock: str = "") -> Figure:
    keys = (f"{clock}{name}" for name in ("step_s", "alone_s", "ratio"))
    step, alone, ratio = (statistics.median(each[key] for each in results) for key in keys)
    return Figure(
        name=f"{side}, CPU of the trainer" if clock else side,
        value=step * _NANOSECONDS,
        unit="ns per step",
        peer=PEER,
        peer_value=alone * _NANOSECONDS,
        ratio=ratio,
    )


class Hung:
    """A sink that never comes back."""

    name = "hung"

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Wait for ever."""
        threading.Event().wait()

    def event(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Wait for ever."""
        threading.Event().wait()

    def close(self) -> None:
        """Never reached."""


class FullDisk(FileSystem):
    """A disk on which there is no space for another line."""

    def append(self, descriptor: int, piece: Piece) -> int:
        """Fail."""
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def compare(seconds: float, *, tensorboard: bool = False, wandb: str = "false", sinks: Sequence[Sink] = ()) -> Measured:
    """Let a run with these sinks and one without any take turns."""
    limit_threads(1, os.environ)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        alone = _ready(Path(folder) / "alone", _config(tensorboard=False, wandb="false"), ())
        mine = _ready(Path(folder) / "mine", _config(tensorboard=tensorboard, wandb=wandb), sinks)
        try:
            windows = [_window(alone)]
            while len(windows) <= max(2, seconds / WINDOW_S):
                windows += [_window(mine), _window(alone)]
        finally:
            for loop in (alone, mine):
                loop.stop()
                loop.wait(60)
        ended = [line for line in read_jsonl(Path(folder) / "mine" / "events.jsonl") if line["event"] == "sinks"]
        dropped = sum(sink["dropped"] for line in ended for sink in line["sinks"])
    wall, cpu = (_beside(list(column)) for column in zip(*windows, strict=True))
    return {**wall, **{f"cpu_{name}": value for name, value in cpu.items()}, "dropped": dropped}


def _beside(windows: Sequence[float]) -> Measured:
    """The second, fourth, ... window beside the mean of the ones before and after each: medians."""
    ratios = [mine / statistics.mean(windows[at : at + 3 : 2]) for at, mine in enumerate(windows[1:]) if at % 2 == 0]
    medians = {"step_s": statistics.median(windows[1::2]), "alone_s": statistics.median(windows[::2])}
    return {"ratio": statistics.median(ratios), **medians}


def _config(*, tensorboard: bool, wandb: str) -> str:
    shared = [line for line in SHARED.splitlines() if not line.startswith("telemetry")]
    chosen = f"telemetry: {{tensorboard: {str(tensorboard).lower()}, wandb: {wandb}, every_s: 0.1}}"
    return CONFIG + "\n".join([*shared, chosen, ""])


def _ready(path: Path, text: str, sinks: Sequence[Sink]) -> Any:
    """A run that has warmed up, and is paused."""
    from ludus.config import parse_config
    from ludus.runs import SingleRun

    loop = SingleRun(parse_config(text, "bench.yaml"), path, sinks=sinks)
    loop.start()
    wait_for(loop, lambda status: status.stage == "training" and status.update >= WARM_UP_UPDATES)
    loop.pause()
    wait_for(loop, lambda status: status.stage == "paused")
    return loop


def _window(loop: Any) -> tuple[float, float]:
    """Seconds for a step, and CPU-seconds of this process, from the end of an update to the end of another one."""
    loop.resume()
    wall, cpu, steps = _next_update(loop)
    time.sleep(WINDOW_S)
    wall_then, cpu_then, steps_then = _next_update(loop)
    loop.pause()
    wait_for(loop, lambda status: status.stage == "paused")
    return (wall_then - wall) / (steps_then - steps), (cpu_then - cpu) / (steps_then - steps)


def _next_update(loop: Any) -> tuple[float, float, int]:
    before = loop.status().update
    while (status := loop.wait(0.0005)).update == before:
        if status.is_over:
            raise RuntimeError(f"the run ended early: {status}")
    return time.perf_counter(), time.process_time(), status.steps


def compare_full_disk(seconds: float) -> Measured:
    """TensorBoard on a disk without space."""
    with tempfile.TemporaryDirectory() as folder:
        return compare(seconds, sinks=(TensorBoardSink(Path(folder), fs=FullDisk()),))


def compare_unreachable(seconds: float) -> Measured:
    """Weights & Biases, whose server refuses connections."""
    os.environ |= {"WANDB_BASE_URL": UNREACHABLE, "WANDB_API_KEY": "0" * 40}
    return compare(seconds, wandb="{mode: online}")


def compare_killed(seconds: float) -> Measured:
    """Weights & Biases, whose service is killed every few seconds."""
    with _killing("wandb-core"):
        return compare(seconds, wandb="{mode: offline}")


@contextlib.contextmanager
def _killing(name: str) -> Iterator[None]:
    is_over = threading.Event()

    def kill() -> None:
        while not is_over.wait(KILL_EVERY_S):
            for pid in descendants(os.getpid()):
                with contextlib.suppress(OSError):
                    if Path(f"/proc/{pid}/comm").read_text().strip() == name:
                        os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


SIDES: dict[str, Callable[[float], Measured]] = {
    "another run without sinks": compare,
    "tensorboard": lambda seconds: compare(seconds, tensorboard=True),
    "tensorboard, full disk": compare_full_disk,
    "wandb, offline": lambda seconds: compare(seconds, wandb="{mode: offline}"),
    "wandb, unreachable": compare_unreachable,
    "wandb, killed every 2 s": compare_killed,
    "a sink that hangs": lambda seconds: compare(seconds, sinks=(Hung(),)),
}

if __name__ == "__main__":
    run_this_side(SIDES)
