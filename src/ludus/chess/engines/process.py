"""A foreign program that speaks lines, held at arm's length.

Invariants: no call waits longer than its deadline, whatever the program does: reads and writes share one `select`. What
is kept of its output is bounded. Its process group is dead and its process reaped when `close` returns. Its environment
has what a program needs to start and nothing else, so tokens and keys of ours stay here.

Not covered: a program that ignores the end of its input, when this process is killed with SIGKILL.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
import weakref
from collections import deque
from collections.abc import Sequence
from pathlib import Path

PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "SYSTEMROOT")
"""Variables of our environment that a program gets."""
MOST_LINE_BYTES = 1 << 16
MOST_LAST_WORDS = 2048
READ_BYTES = 1 << 16
QUIT_S = 1.0
"""Between asking a program to leave and killing it."""


class Gone(Exception):
    """The program ended, or broke the bounds of its output; the text says how."""


class Late(Exception):
    """The program said nothing in time."""


class LineProcess:
    """One program, its lines and its end."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env={name: os.environ[name] for name in PASSED_ON if name in os.environ},
            cwd=Path(command[0]).parent,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self._finalizer = weakref.finalize(self, _end, self._process)
        self._selector = selectors.DefaultSelector()
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None  # noqa: S101 - a pipe was asked for
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ)
        assert self._process.stdin is not None  # noqa: S101
        os.set_blocking(self._process.stdin.fileno(), False)
        self._outgoing = bytearray()
        self._partial = bytearray()
        self._lines: deque[str] = deque()
        self._said = bytearray()

    def send(self, *lines: str) -> None:
        """Queue lines; they are written while lines are read."""
        self._outgoing += "".join(f"{line}\n" for line in lines).encode()
        self._write()

    def read_line(self, deadline: float) -> str:
        """The next line, without its end.

        Args:
            deadline: by `time.monotonic`.

        Raises:
            Late: there is none by then.
            Gone: there will be none.
        """
        while not self._lines:
            if (left := deadline - time.monotonic()) <= 0:
                raise Late
            self._exchange(left)
        return self._lines.popleft()

    def last_words(self) -> str:
        """The end of what it wrote to stderr, in one line."""
        return " ".join(self._said.decode(errors="replace").split())[-300:]

    def close(self, farewell: str = "") -> None:
        """End it: politely if there is a farewell, with SIGKILL if that does not help. Can be called again."""
        if farewell and self._process.poll() is None:
            with contextlib.suppress(Gone):
                self.send(farewell)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(QUIT_S)
        self._selector.close()
        self._finalizer()

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._finalizer.alive and self._process.poll() is None

    def _exchange(self, timeout_s: float) -> None:
        """Write what can be written and read what there is."""
        stdin, stdout = self._process.stdin, self._process.stdout
        if self._outgoing:
            self._selector.register(stdin, selectors.EVENT_WRITE)  # type: ignore[arg-type]
        try:
            ready = self._selector.select(timeout_s)
        finally:
            if self._outgoing:
                self._selector.unregister(stdin)  # type: ignore[arg-type]
        for key, _ in ready:
            if key.fileobj is stdin:
                self._write()
            elif key.fileobj is stdout:
                self._take_output(_read(key.fd))
            else:
                self._take_complaint(key.fileobj, _read(key.fd))

    def _write(self) -> None:
        stdin = self._process.stdin
        if not self._outgoing or stdin is None:
            return
        try:
            written = os.write(stdin.fileno(), self._outgoing)
        except BlockingIOError:
            return
        except (BrokenPipeError, ValueError):
            raise Gone(self._ending()) from None
        del self._outgoing[:written]

    def _take_output(self, data: bytes | None) -> None:
        if data is None:
            return
        if not data:
            raise Gone(self._ending())
        self._partial += data
        if b"\n" in data:
            *lines, rest = self._partial.split(b"\n")
            self._partial = bytearray(rest)
            self._lines.extend(line.decode(errors="replace").rstrip("\r") for line in lines)
        if len(self._partial) > MOST_LINE_BYTES:
            raise Gone(f"wrote a line of more than {MOST_LINE_BYTES:,} bytes")

    def _take_complaint(self, pipe: object, data: bytes | None) -> None:
        if data == b"":
            self._selector.unregister(pipe)  # type: ignore[arg-type]
        self._said += data or b""
        del self._said[:-MOST_LAST_WORDS]

    def _ending(self) -> str:
        """How it ended; its output is closed, so it has ended or is about to."""
        try:
            code = self._process.wait(QUIT_S)
        except subprocess.TimeoutExpired:
            return "closed its output"
        stderr = self._process.stderr
        if stderr is not None:
            self._said += _read(stderr.fileno()) or b""
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def _read(descriptor: int) -> bytes | None:
    """Empty at the end; None when there is nothing yet."""
    try:
        return os.read(descriptor, READ_BYTES)
    except BlockingIOError:
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the whole process group and reap the process."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
