"""Runs that are alive: a daemon of our own, or one that somebody else started."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Protocol

from ludus.daemon.messages import NOTIFICATIONS, LeelaStatus, LogLine, MatchNews, Payload, Shutdown, Status, Subscribe
from ludus.daemon.protocol import CHUNK_BYTES, LineSplitter
from ludus.daemon.sockets import connect
from ludus.monitor.message_queue import MessageQueue, Reply
from ludus.monitor.source import Connection, Outbox, Source, refused
from ludus.storage.lock import RunLock

GRACES_S = (60.0, 20.0, 5.0)
"""How long an end is waited for after asking, SIGTERM and SIGKILL. A checkpoint of a large model takes its time."""
LAST_LOG_LINES = 8


class ChildSource(Source):
    """A daemon as a child process: commands to its standard input, messages from its output, its log from the third.

    Invariant: the daemon is in a session of its own, so nothing that happens to our terminal reaches it but the end of
    its standard input, upon which it saves and ends; that comes also when we are killed. It is never left behind:
    `close` asks, then terminates, then kills.
    """

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

    def start(self, message_queue: MessageQueue) -> None:
        """Start the daemon and its three threads."""
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            self._command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True
        )
        self._process = process
        self._outbox = Outbox(lambda line: _write_all(process.stdin, line))
        message_queue.on_reply = self._outbox.resolve
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
            if signal_to_send is not None:
                self._process.send_signal(signal_to_send)
            elif self._outbox is not None:
                self._outbox.send(Shutdown())
            if not self._ended.is_set():
                self._wake.wait(grace_s)
        return self.connection.words if self._ended.is_set() else f"the daemon (pid {self._process.pid}) does not end"

    def hurry(self) -> None:
        """Go on to the next, harder way of ending it."""
        self._wake.set()

    def last_log(self) -> list[str]:
        """The newest lines of its log."""
        return [line.decode("utf-8", "replace") for line in list(self._last_log)]

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


POLL_S = 1.0
WANTED = tuple(name for name in NOTIFICATIONS if name != LeelaStatus.type)
"""Everything but what says the same in another shape."""


class Watch(Protocol):
    """Reads the files of a run."""

    def poll(self) -> Iterable[Payload]:
        """What is new since the last time, the quickest first; called about once a second."""
        ...


class AttachedSource(Source):
    """Watches a run directory: live through its control socket, or as it was left, from its files.

    Invariant: leaving never touches the run. When the process goes away the last state stays on the screen, with how it
    ended; when a process comes back (the run was resumed) it is attached to again.
    """

    def __init__(
        self,
        run_dir: Path,
        make_watch: Callable[[Path], Watch],
        *,
        poll_s: float = POLL_S,
        wanted: tuple[str, ...] = WANTED,
    ) -> None:
        self._run_dir = run_dir
        self._wanted = wanted
        self._make_watch = make_watch
        self._poll_s = poll_s
        self._watch: Watch | None = None
        self._link: socket.socket | None = None
        self._outbox: Outbox | None = None
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self.connection = Connection(state="starting", words=f"looking into {run_dir}")

    def start(self, message_queue: MessageQueue) -> None:
        """Begin to watch."""
        self._thread = threading.Thread(target=self._work, args=(message_queue,), name="attached", daemon=True)
        self._thread.start()

    def send(self, command: Payload) -> Future[Reply]:
        """Ask the run's process, if there is one."""
        if self._outbox is None:
            return refused(f"{self.connection.words}; resume it with: ludus tui {self._run_dir / 'config.yaml'}")
        return self._outbox.send(command)

    def close(self) -> str:
        """Leave the run as it is."""
        was_live = self.connection.is_live
        self._closed.set()
        if self._link is not None:
            with contextlib.suppress(OSError):
                self._link.shutdown(socket.SHUT_RDWR)
        if self._thread is not None:
            self._thread.join(2.0)
        return f"the run in {self._run_dir} continues" if was_live else ""

    def _work(self, message_queue: MessageQueue) -> None:
        while not self._closed.is_set():
            try:
                link = connect(self._run_dir)
            except OSError:
                self._look(message_queue, with_status=True)
            else:
                self._look(message_queue, with_status=False)
                self._listen(link, message_queue)
            self._closed.wait(self._poll_s)

    def _look(self, message_queue: MessageQueue, *, with_status: bool) -> None:
        """Read the files: curves, ladder and episodes from before we came, and everything where nobody is alive."""
        try:
            self._watch = self._watch or self._make_watch(self._run_dir)
            for each in self._watch.poll():  # one by one: the screen need not wait for the last of it
                if with_status and isinstance(each, Status):
                    self.connection = self._as_left()
                if not isinstance(each, MatchNews if with_status else (MatchNews, Status)):
                    message_queue.take([each], is_retold=True)
        except Exception as error:  # whatever the files hold, this thread goes on and says so
            self.connection = Connection(state="left", words=f"the files of the run cannot be read: {error}")

    def _as_left(self) -> Connection:
        holder = RunLock.holder(self._run_dir)
        if holder is None:
            left = Connection(state="left", words="nobody runs it now; this is how it was left")
            return self.connection if self.connection.state == "lost" else left
        words = f"read from its files: process {holder.get('pid')} runs it but cannot be reached"
        return Connection(state="left", words=words)

    def _listen(self, link: socket.socket, message_queue: MessageQueue) -> None:
        """Be attached until one side leaves."""
        self._link = link
        self._outbox = outbox = Outbox(link.sendall)
        message_queue.on_reply = outbox.resolve
        outbox.send(Subscribe(types=self._wanted))
        holder = RunLock.holder(self._run_dir)
        self.connection = Connection(state="live", words=f"attached to process {holder.get('pid') if holder else '?'}")
        splitter = LineSplitter()
        while chunk := _receive(link):
            message_queue.take_lines(splitter.feed(chunk))
        self._outbox, self._link = None, None
        link.close()
        outbox.close("the run's process has left")
        if not self._closed.is_set():
            self.connection = Connection(state="lost", words="the run's process has left; this is its last state")
            message_queue.take([LogLine(line=self.connection.words)])


def _receive(link: socket.socket) -> bytes:
    try:
        return link.recv(CHUNK_BYTES)
    except OSError:
        return b""
