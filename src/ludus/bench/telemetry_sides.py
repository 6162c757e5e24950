"""A run whose metrics go somewhere that works, or fails: `python -m ludus.bench.telemetry_sides NAME SECONDS`.

The fused Connect Four of `ludus bench loop`, which writes a metric line with every update: the most that a run can ask
of its sinks. Prints one JSON object, as `sides.py` does, with the lines that sinks lost.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ludus.bench.cpu import descendants
from ludus.bench.sides import FUSED, SHARED, run_loop
from ludus.storage.filesystem import Piece, RealFileSystem
from ludus.telemetry import Sink, TensorBoardSink

UNREACHABLE = "http://127.0.0.1:9"
KILL_EVERY_S = 2.0


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


class FullDisk(RealFileSystem):
    """A disk on which there is no space for another line."""

    def append(self, descriptor: int, piece: Piece) -> int:
        """Fail."""
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def run_side(seconds: float, *, tensorboard: bool = False, wandb: str = "false", sinks: tuple[Sink, ...] = ()) -> Any:
    """Steps of a run with these sinks."""
    chosen = f"telemetry: {{tensorboard: {str(tensorboard).lower()}, wandb: {wandb}, every_s: 0}}\n"
    shared = "\n".join(line for line in SHARED.splitlines() if not line.startswith("telemetry")) + f"\n{chosen}"
    return run_loop(seconds, FUSED, shared=shared, sinks=sinks)


def run_full_disk(seconds: float) -> Any:
    """TensorBoard on a disk without space."""
    with tempfile.TemporaryDirectory() as folder:
        return run_side(seconds, sinks=(TensorBoardSink(Path(folder), fs=FullDisk()),))


def run_killed(seconds: float) -> Any:
    """Weights & Biases, whose process is killed every few seconds."""
    with _killing():
        return run_side(seconds, wandb="{mode: offline}")


def run_unreachable(seconds: float) -> Any:
    """Weights & Biases, whose server refuses connections."""
    os.environ |= {"WANDB_BASE_URL": UNREACHABLE, "WANDB_API_KEY": "0" * 40}
    return run_side(seconds, wandb="{mode: online}")


@contextlib.contextmanager
def _killing() -> Iterator[None]:
    is_over = threading.Event()

    def kill() -> None:
        while not is_over.wait(KILL_EVERY_S):
            for pid in descendants(os.getpid()):
                with contextlib.suppress(OSError):
                    if Path(f"/proc/{pid}/comm").read_text().strip() == "wandb-core":
                        os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


SIDES: dict[str, Callable[[float], Any]] = {
    "none": run_side,
    "tensorboard": lambda seconds: run_side(seconds, tensorboard=True),
    "wandb": lambda seconds: run_side(seconds, wandb="{mode: offline}"),
    "wandb unreachable": run_unreachable,
    "wandb killed": run_killed,
    "full disk": run_full_disk,
    "hung sink": lambda seconds: run_side(seconds, sinks=(Hung(),)),
}


def main() -> None:
    """Run one side."""
    name, seconds = sys.argv[1], float(sys.argv[2])
    print(json.dumps(SIDES[name](seconds)))


if __name__ == "__main__":
    main()
