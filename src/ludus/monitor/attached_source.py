"""A run that somebody else started: live through its control socket, or as it was left, from its files.

Invariant: leaving never touches the run. When the process goes away the last state stays on the screen, with how it
ended; when a process comes back (the run was resumed) it is attached to again.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Protocol

from ludus.daemon.lines import CHUNK_BYTES, LineSplitter
from ludus.daemon.messages import NOTIFICATIONS, LeelaStatus, LogLine, MatchNews, Payload, Status, Subscribe
from ludus.daemon.sockets import connect
from ludus.monitor.message_queue import MessageQueue, Reply
from ludus.monitor.source import Connection, Outbox, Source, refused
from ludus.storage.lock import RunLock

POLL_S = 1.0
WANTED = tuple(name for name in NOTIFICATIONS if name != LeelaStatus.type)
"""Everything but what says the same in another shape."""


class Watch(Protocol):
    """Reads the files of a run."""

    def poll(self) -> list[Payload]:
        """What is new since the last time; called about once a second."""
        ...


class AttachedSource(Source):
    """Watches a run directory, whoever is alive in it."""

    def __init__(self, run_dir: Path, make_watch: Callable[[Path], Watch], *, poll_s: float = POLL_S) -> None:
        self._run_dir = run_dir
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
            link = _reach(self._run_dir)
            if link is not None:
                self._look(message_queue, with_status=False)
                self._listen(link, message_queue)
            else:
                self._look(message_queue, with_status=True)
            self._closed.wait(self._poll_s)

    def _look(self, message_queue: MessageQueue, *, with_status: bool) -> None:
        """Read the files: curves, ladder and episodes from before we came, and everything where nobody is alive."""
        try:
            self._watch = self._watch or self._make_watch(self._run_dir)
            news = self._watch.poll()
        except Exception as error:  # whatever the files hold, this thread goes on and says so
            self.connection = Connection(state="left", words=f"the files of the run cannot be read: {error}")
            return
        left_out = MatchNews if with_status else (MatchNews, Status)
        message_queue.take((each for each in news if not isinstance(each, left_out)), is_retold=True)
        if with_status:
            self.connection = self._as_left()

    def _as_left(self) -> Connection:
        if self.connection.state == "lost" and RunLock.holder(self._run_dir) is None:
            return self.connection
        holder = RunLock.holder(self._run_dir)
        if holder is None:
            return Connection(state="left", words="nobody runs it now; this is how it was left")
        words = f"read from its files: process {holder.get('pid')} runs it but cannot be reached"
        return Connection(state="left", words=words)

    def _listen(self, link: socket.socket, message_queue: MessageQueue) -> None:
        """Be attached until one side leaves."""
        self._link = link
        self._outbox = outbox = Outbox(link.sendall)
        message_queue.answer_to(outbox.resolve)
        outbox.send(Subscribe(types=WANTED))
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


def _reach(run_dir: Path) -> socket.socket | None:
    try:
        return connect(run_dir)
    except OSError:
        return None


def _receive(link: socket.socket) -> bytes:
    try:
        return link.recv(CHUNK_BYTES)
    except OSError:
        return b""
