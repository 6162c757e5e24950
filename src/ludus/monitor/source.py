"""Where the dashboard gets its messages from, and whom it sends commands to.

Invariant: nothing here ever blocks the caller. Reading and writing happen in threads; a reply is a future, and every
future gets its reply, if only to say that nobody is there any more.
"""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal, Protocol

from ludus.daemon.messages import Failure, Payload
from ludus.daemon.protocol import MessageId
from ludus.monitor.message_queue import MessageQueue, Reply

State = Literal["starting", "live", "left", "ended", "lost"]
"""left: nobody runs it, this is how it was left. ended: what we started has ended. lost: gone, and may come back."""


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


class Source(Protocol):
    """One run to watch."""

    @property
    def connection(self) -> Connection:
        """How things stand now; asked a few times a second."""
        ...

    @property
    def owns_run(self) -> bool:
        """Whether the run ends with the dashboard."""
        ...

    @property
    def has_failed(self) -> bool:
        """Whether what we started has ended in another way than it should."""
        ...

    def last_log(self) -> list[str]:
        """The newest lines of its log, where it is ours."""
        ...

    def start(self, message_queue: MessageQueue) -> None:
        """Begin to fill the message_queue; called once."""
        ...

    def send(self, command: Payload) -> Future[Reply]:
        """Ask for something. Returns at once."""
        ...

    def close(self) -> str:
        """Leave, in order; returns how it ended, for people. Blocks (bounded), so it is called in a thread."""
        ...

    def hurry(self) -> None:
        """Make a `close` that is under way leave at once."""
        ...


class Pending:
    """Commands that wait for their replies."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._waiting: dict[MessageId, Future[Reply]] = {}

    def add(self) -> tuple[str, Future[Reply]]:
        """A new id, and where its reply will be."""
        id, future = f"tui-{next(self._numbers)}", Future[Reply]()
        with self._lock:
            self._waiting[id] = future
        return id, future

    def resolve(self, id: MessageId, reply: Reply) -> None:
        """Hand a reply to whom it is for; one that nobody waits for is left alone."""
        with self._lock:
            future = self._waiting.pop(id, None)
        if future is not None:
            future.set_result(reply)

    def give_up(self, reason: str) -> None:
        """Nobody will answer any more."""
        with self._lock:
            ids = list(self._waiting)
        for id in ids:
            self.resolve(id, refusal(reason))


def refusal(reason: str) -> Failure:
    """What is answered where nobody is there to be asked."""
    return Failure(code="wrong_state", message=reason)


def refused(reason: str) -> Future[Reply]:
    """A reply that is there already."""
    future = Future[Reply]()
    future.set_result(refusal(reason))
    return future
