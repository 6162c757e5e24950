"""Where the dashboard gets its messages from, and whom it sends commands to.

Invariant: nothing here ever blocks the caller. Reading and writing happen in threads; a reply is a future, and every
future gets its reply, if only to say that nobody is there any more.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ludus.daemon.messages import Failure, Payload
from ludus.daemon.protocol import MessageId, read_lines, write_command
from ludus.monitor.message_queue import MessageQueue, Reply

State = Literal["starting", "live", "left", "ended", "lost"]
"""left: nobody runs it, this is how it was left. ended: what we started has ended. lost: gone, and may come back."""
MOST_WAITING = 100
"""Commands that the other side has not taken yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """How things stand with the other side."""

    state: State
    words: str
    """For people: whom we are connected to, or how it ended."""

    @property
    def is_live(self) -> bool:
        """Whether a command would be heard."""
        return self.state in ("starting", "live")


class Source(ABC):
    """One run to watch."""

    connection: Connection
    """How things stand now; asked a few times a second."""
    owns_run = False
    """Whether the run ends with the dashboard."""

    @property
    def has_failed(self) -> bool:
        """Whether what we started has ended in another way than it should."""
        return False

    def last_log(self) -> list[str]:
        """The newest lines of its log, where it is ours."""
        return []

    @abstractmethod
    def start(self, message_queue: MessageQueue) -> None:
        """Begin to fill the message_queue; called once."""

    @abstractmethod
    def send(self, command: Payload) -> Future[Reply]:
        """Ask for something. Returns at once."""

    @abstractmethod
    def close(self) -> str:
        """Leave, in order; returns how it ended, for people. Blocks (bounded), so it is called in a thread."""

    def hurry(self) -> None:  # noqa: B027 - most never take long
        """Make a `close` that is under way leave at once."""


class Outbox:
    """Commands on their way to the other side: one that does not listen blocks a thread of this, never the screen."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._lines: queue.Queue[bytes | None] = queue.Queue(MOST_WAITING)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._pending: dict[MessageId, Future[Reply]] = {}
        self._is_closed = False
        threading.Thread(target=self._work, name="commands", daemon=True).start()

    def send(self, command: Payload) -> Future[Reply]:
        """Send a command; the reply comes with its time."""
        if self._is_closed:
            return refused("nobody is there to be asked any more")
        id, future = f"tui-{next(self._numbers)}", Future[Reply]()
        with self._lock:
            self._pending[id] = future
        try:
            self._lines.put_nowait(write_command(command, id))
        except queue.Full:
            self._give_up(f"it has taken none of the last {MOST_WAITING} commands; wait, or quit with ctrl+c")
        return future

    def resolve(self, id: MessageId, reply: Reply) -> None:
        """Hand a reply to whom it is for; one that nobody waits for is left alone."""
        with self._lock:
            future = self._pending.pop(id, None)
        if future is not None:
            future.set_result(reply)

    def close(self, reason: str) -> None:
        """Send nothing more, and answer whoever still waits."""
        self._is_closed = True
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait(None)
        self._give_up(reason)

    def _give_up(self, reason: str) -> None:
        with self._lock:
            ids = list(self._pending)
        for id in ids:
            self.resolve(id, _refusal(reason))

    def _work(self) -> None:
        while (line := self._lines.get()) is not None and not self._is_closed:
            try:
                self._write(line)
            except (OSError, ValueError):
                # How it ended is told by the thread that reads.
                return


def _refusal(reason: str) -> Failure:
    return Failure(code="wrong_state", message=reason)


def refused(reason: str) -> Future[Reply]:
    """The reply where nobody is there to be asked."""
    future = Future[Reply]()
    future.set_result(_refusal(reason))
    return future


class RecordedSource(Source):
    """Replays a file from beginning to end, as fast as it is read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._closed = threading.Event()
        self.is_through = threading.Event()
        """Set when the whole file has been shown."""
        self.connection = Connection(state="left", words=f"recording {path.name}")

    def start(self, message_queue: MessageQueue) -> None:
        """Begin to replay."""
        threading.Thread(target=self._replay, args=(message_queue,), name="recording", daemon=True).start()

    def send(self, command: Payload) -> Future[Reply]:
        """Refused: there is no run."""
        return refused("this is a recording; nobody is there who could do that")

    def close(self) -> str:
        """Stop replaying."""
        self._closed.set()
        return ""

    def _replay(self, message_queue: MessageQueue) -> None:
        try:
            with self._path.open("rb") as file:
                for line in read_lines(file.fileno()):
                    if self._closed.is_set():
                        return
                    message_queue.take_lines([line])
        except OSError as error:
            self.connection = Connection(state="ended", words=f"{self._path} cannot be read: {error.strerror}")
        finally:
            self.is_through.set()
