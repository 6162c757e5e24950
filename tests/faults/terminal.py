"""A program in a terminal of its own, for tests: what it writes, its keys, its size, and whether it left it in order."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from types import TracebackType

# In the new process itself: a fork of one that has loaded JAX is a warning, which is an error here.
TAKES_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
)
LEAVES_SCREEN, SHOWS_CURSOR = b"\x1b[?1049l", b"\x1b[?25h"


class Terminal:
    """Starts a program as the session leader of a new pseudo-terminal.

    Without `controls` the program only writes and reads there, and gets no signals from it.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        size: tuple[int, int] = (80, 24),
        env: Mapping[str, str] | None = None,
        controls: bool = True,
    ) -> None:
        self._main, self._terminal = pty.openpty()
        self._ends = [self._main, self._terminal]
        self.before = termios.tcgetattr(self._terminal)
        self._set_size(size)
        environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", TAKES_TERMINAL, *command] if controls else list(command),
            stdin=self._terminal,
            stdout=self._terminal,
            stderr=self._terminal,
            env={**environment, "TERM": "xterm-256color", **(env or {})},
            start_new_session=True,
        )
        self.seen = b""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.hang_up()

    def hang_up(self) -> None:
        """Close the window."""
        while self._ends:
            os.close(self._ends.pop())

    def press(self, keys: bytes) -> None:
        """Type something."""
        os.write(self._main, keys)

    def resize(self, size: tuple[int, int]) -> None:
        """Pull at the window's corner."""
        self._set_size(size)
        os.killpg(self.process.pid, signal.SIGWINCH)

    def expect(self, pattern: bytes, seconds: float = 30.0) -> bytes:
        """Read until something has been written since the last time; returns what was read."""
        read, deadline = b"", time.monotonic() + seconds
        while not (found := re.search(pattern, read)):
            assert time.monotonic() < deadline, f"no {pattern!r} in {read[-3000:]!r}"
            read += self._read(0.05)
        return read[: found.end()]

    def wait(self, seconds: float = 30.0) -> int:
        """Its exit code."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it does not end; it wrote {self.seen[-2000:]!r}"
            self._read(0.05)
        while self._read(0.2):
            pass
        return self.process.returncode

    def wait_a_little(self, seconds: float) -> None:
        """What a person does between two keys."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and self.process.poll() is None:
            self._read(min(left, 0.05))

    def assert_restored(self) -> None:
        """It left the screen, shows the cursor, and lines and signals work as before."""
        assert termios.tcgetattr(self._terminal) == self.before
        entered = self.seen.rfind(b"\x1b[?1049h")
        if entered >= 0:
            assert self.seen.find(LEAVES_SCREEN, entered) > 0
            assert self.seen.rfind(SHOWS_CURSOR) > self.seen.rfind(b"\x1b[?25l")

    def _read(self, seconds: float) -> bytes:
        if not select.select([self._main], [], [], seconds)[0]:
            return b""
        found = os.read(self._main, 1 << 16)
        self.seen = (self.seen + found)[-2_000_000:]
        return found

    def _set_size(self, size: tuple[int, int]) -> None:
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))


def ludus(*arguments: str) -> list[str]:
    """The command line of ludus."""
    return [sys.executable, "-m", "ludus.cli.app", *arguments]


def dashboard_of(program: str) -> list[str]:
    """The real dashboard with a small program as its daemon."""
    code = (
        "import sys; from ludus.cli.tui import show; from ludus.monitor.live_sources import ChildSource; "
        "sys.exit(show(ChildSource([sys.executable, '-c', sys.argv[1]], graces_s=(1.0, 5.0, 5.0)), []))"
    )
    return [sys.executable, "-c", code, program]
