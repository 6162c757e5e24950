"""The process in which Weights & Biases runs, as its sink sees it: lines go in, news come out.

Invariant: nobody waits for it longer than said; killed, it takes wandb's own processes with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

STALL_S = 60.0
"""A process that takes nothing for so long counts as hung."""
_CHUNK = 1 << 16


class WandbProcess:
    """One child, from its first line to its end."""

    def __init__(self, order: Mapping[str, Any], log: Path) -> None:
        """Start it, with the arguments of `wandb.init`; what wandb prints is appended to `log`."""
        with contextlib.ExitStack() as stack:
            stderr = stack.enter_context(log.open("ab")) if log.parent.is_dir() else subprocess.DEVNULL
            self._child = subprocess.Popen(
                [sys.executable, "-P", str(Path(__file__).with_name("wandb_child.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                bufsize=0,
                start_new_session=True,
            )
        for pipe in (self._child.stdin, self._child.stdout):
            os.set_blocking(_number(pipe), False)
        self._pending = b""
        self.in_flight = 0
        """Metric lines that were sent and not yet logged."""
        self.warning = ""
        """What made wandb go on without its server."""
        self.error = ""
        self.mode = ""
        """`online` or `offline`, as soon as the run has begun."""
        self.is_finished = False
        """Everything has been logged, and uploaded as far as the mode says so."""
        self.send(order)

    @property
    def pid(self) -> int:
        """Of the child."""
        return self._child.pid

    @property
    def has_ended(self) -> bool:
        """Whether it is gone."""
        return self._child.poll() is not None

    def send(self, message: Mapping[str, Any]) -> None:
        """Write one line.

        Raises:
            OSError: it is gone, or it took nothing for `STALL_S`.
        """
        rest = memoryview(json.dumps(message).encode() + b"\n")
        self.in_flight += "metrics" in message
        deadline = time.monotonic() + STALL_S
        while rest:
            self.listen()
            if not self._can_write(max(deadline - time.monotonic(), 0.0)):
                raise TimeoutError(f"Weights & Biases took nothing for {STALL_S:.0f} s")
            with contextlib.suppress(BlockingIOError):
                rest = rest[os.write(_number(self._child.stdin), rest) :]

    def listen(self) -> None:
        """Take in what it has said so far."""
        with contextlib.suppress(BlockingIOError):
            while heard := os.read(_number(self._child.stdout), _CHUNK):
                self._pending += heard
        *lines, self._pending = self._pending.split(b"\n")
        for line in lines:
            self._note(json.loads(line))

    def finish(self, timeout_s: float) -> None:
        """Let it log what it has, upload, and end; after the timeout it is killed."""
        if self._child.stdin is not None:
            self._child.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(timeout_s)
        self.listen()
        self.kill()

    def kill(self) -> None:
        """End it at once, and what it has started. May be called from any thread, and again."""
        if self._child.poll() is None:
            for pid in [*_children(self._child.pid), self._child.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._child.wait()

    def release(self) -> None:
        """Close the pipes."""
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                pipe.close()

    def _can_write(self, timeout_s: float) -> bool:
        poller = select.poll()  # unlike `select`, for any number of open files
        poller.register(_number(self._child.stdin), select.POLLOUT)
        return bool(poller.poll(timeout_s * 1000))

    def _note(self, news: Mapping[str, Any]) -> None:
        self.in_flight -= int(news.get("logged", 0))
        self.warning = news.get("warning", self.warning)
        self.error = news.get("error", self.error)
        self.mode = news.get("mode", self.mode)
        self.is_finished = news.get("finished", self.is_finished)


def _number(pipe: Any) -> int:
    return int(pipe.fileno())


def _children(pid: int) -> list[int]:
    """Processes that a process has started; wandb's service has a session of its own, so no group names them all."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found
