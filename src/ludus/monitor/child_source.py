"""A daemon of our own: started with the dashboard, and stopped in order with it.

Invariant: the daemon is in a session of its own, so nothing that happens to our terminal reaches it but the end of its
standard input, upon which it saves and ends; that comes also when we are killed. It is never left behind: `close` asks,
then terminates, then kills.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import IO

from ludus.daemon.lines import CHUNK_BYTES, LineSplitter
from ludus.daemon.messages import Payload, Shutdown
from ludus.monitor.message_queue import MessageQueue, Reply
from ludus.monitor.source import Connection, Outbox, Source, refused

GRACES_S = (60.0, 20.0, 5.0)
"""How long an end is waited for after asking, SIGTERM and SIGKILL. A checkpoint of a large model takes its time."""
LAST_LOG_LINES = 8


class ChildSource(Source):
    """A daemon as a child process: commands to its standard input, messages from its output, its log from the third."""

    owns_run = True

    def __init__(self, command: Sequence[str], *, graces_s: Sequence[float] = GRACES_S) -> None:
        self._command = list(command)
        self._graces_s = tuple(graces_s)
        self._process: subprocess.Popen[bytes] | None = None
        self._outbox: Outbox | None = None
        self._ended, self._wake = threading.Event(), threading.Event()
        self._last_log: deque[bytes] = deque(maxlen=LAST_LOG_LINES)
        self.connection = Connection(state="starting", words="starting a daemon")

    @property
    def has_failed(self) -> bool:
        """Whether it was killed, or failed."""
        return self._process is not None and bool(self._process.returncode)

    @property
    def pid(self) -> int:
        """Of the daemon; 0 before it was started."""
        return self._process.pid if self._process else 0

    def start(self, message_queue: MessageQueue) -> None:
        """Start the daemon and its three threads."""
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            self._command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True
        )
        self._process = process
        self._outbox = Outbox(lambda line: _write_all(process.stdin, line))
        message_queue.answer_to(self._outbox.resolve)
        self.connection = Connection(state="live", words=f"own daemon, pid {process.pid}")
        for name, work in (("messages", self._read), ("log", self._read_log), ("end", self._await_end)):
            threading.Thread(target=work, args=(process, message_queue), name=name, daemon=True).start()

    def send(self, command: Payload) -> Future[Reply]:
        """Ask the daemon."""
        if self._outbox is None or self._ended.is_set():
            return refused(f"{self.connection.words}; start again with the same command")
        return self._outbox.send(command)

    def close(self) -> str:
        """Stop the run in order and wait for it; bounded by the graces."""
        if self._process is None:
            return ""
        for signal_to_send, grace_s in zip((None, signal.SIGTERM, signal.SIGKILL), self._graces_s, strict=True):
            if self._ended.is_set():
                break
            self._wake.clear()
            self._ask_to_end(signal_to_send)
            if not self._ended.is_set():
                self._wake.wait(grace_s)
        return self.connection.words if self._ended.is_set() else f"the daemon (pid {self.pid}) does not end"

    def hurry(self) -> None:
        """Go on to the next, harder way of ending it."""
        self._wake.set()

    def last_log(self) -> list[str]:
        """The newest lines of its log."""
        return [line.decode("utf-8", "replace") for line in list(self._last_log)]

    def _ask_to_end(self, number: int | None) -> None:
        if number is not None and self._process is not None:
            self._process.send_signal(number)
        elif self._outbox is not None:
            self._outbox.send(Shutdown())

    def _read(self, process: subprocess.Popen[bytes], message_queue: MessageQueue) -> None:
        splitter = LineSplitter()
        for chunk in _chunks(process.stdout):
            message_queue.take_lines(splitter.feed(chunk))
        message_queue.take_lines(splitter.end())

    def _read_log(self, process: subprocess.Popen[bytes], message_queue: MessageQueue) -> None:
        splitter = LineSplitter()
        for chunk in _chunks(process.stderr):
            lines = [line for line in splitter.feed(chunk) if isinstance(line, bytes)]
            self._last_log.extend(line[:1000] for line in lines)
            message_queue.take_log(lines)
        message_queue.take_log(line for line in splitter.end() if isinstance(line, bytes))

    def _await_end(self, process: subprocess.Popen[bytes], message_queue: MessageQueue) -> None:
        words = f"the daemon {in_words(process.wait())}"
        self.connection = Connection(state="ended", words=words)
        message_queue.take_log([words.encode()])
        self._ended.set()
        self._wake.set()
        if self._outbox is not None:
            self._outbox.close(words)
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()


def in_words(code: int) -> str:
    """How a process ended."""
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        return f"was killed by {name}"
    return "has ended" if code == 0 else f"failed with exit code {code}"


def _chunks(file: IO[bytes] | None) -> Iterator[bytes]:
    """What comes, until the other end is closed; then this end is closed, too."""
    if file is None:
        return
    with file:
        while chunk := os.read(file.fileno(), CHUNK_BYTES):
            yield chunk


def _write_all(file: IO[bytes] | None, line: bytes) -> None:
    while line and file is not None:
        line = line[os.write(file.fileno(), line) :]
