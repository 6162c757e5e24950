"""One client of a service: a thread of its own reads what it says, another writes what it is told.

Replies are never lost; of news only the newest are kept for a slow reader. Invariant: whoever produces news never
waits. Whoever replies waits while the client has left `MOST_REPLIES` of them unread, so that a client that only talks
is not listened to either, and memory is bounded.

A client speaks ludus, or the Leela daemon's language: whoever begins with one of that daemon's two commands, in its own
shape and without an id, is told `training_status` and nothing else, since its reader ends at any other message. The
first line that only a client of ludus can have written changes that."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any

from ludus.daemon.messages import (
    Ack,
    ErrorCode,
    Failure,
    LeelaStatus,
    LogLine,
    Payload,
    StartTraining,
    StartTrainingImmediately,
)
from ludus.daemon.protocol import (
    MOST_BYTES,
    BadLine,
    Command,
    MessageId,
    TooLong,
    find_id,
    parse_command,
    read_lines,
    write_message,
)

log = logging.getLogger(__name__)

MOST_REPLIES = 1000
MOST_NEWS = 1000
CLOSE_S = 2.0


class Outlet:
    """Lines to one descriptor, written by a thread of its own."""

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor = descriptor
        self._wake = threading.Condition()
        self._replies: deque[tuple[int, bytes]] = deque()
        self._news: deque[tuple[int, bytes]] = deque()
        self._numbers = count()
        self._closing = False
        self.is_gone = False
        """Whether nobody reads any more."""
        self.dropped = 0
        """News that the client was too slow for."""
        self._thread = threading.Thread(target=self._write_all, name=f"to {name}", daemon=True)
        self._thread.start()

    def reply(self, line: bytes) -> None:
        """Send a reply, after what was sent before it."""
        with self._wake:
            self._wake.wait_for(lambda: len(self._replies) < MOST_REPLIES or self.is_gone or self._closing)
            if self.is_gone:
                return
            self._replies.append((next(self._numbers), line))
            self._wake.notify_all()

    def tell(self, line: bytes) -> None:
        """Send news; when too much is unread, the oldest make room."""
        with self._wake:
            if self.is_gone or self._closing:
                return
            if len(self._news) >= MOST_NEWS:
                self._news.popleft()
                self.dropped += 1
            self._news.append((next(self._numbers), line))
            self._wake.notify_all()

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Send what is left, if the client still reads."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        self._thread.join(timeout_s)

    def _next(self) -> bytes | None:
        """The oldest line; waits for one. None when there will be no more."""
        with self._wake:
            self._wake.wait_for(lambda: self._replies or self._news or self._closing)
            waiting = [queue for queue in (self._replies, self._news) if queue]
            if not waiting:
                return None
            _, line = min(waiting, key=lambda queue: queue[0]).popleft()
            self._wake.notify_all()
            return line

    def _write_all(self) -> None:
        while (line := self._next()) is not None:
            try:
                _write(self._descriptor, line)
            except OSError:
                with self._wake:
                    self.is_gone = True
                    self._replies.clear()
                    self._news.clear()
                    self._wake.notify_all()
                return


def _write(descriptor: int, line: bytes) -> None:
    view = memoryview(line)
    while view:
        view = view[os.write(descriptor, view) :]


Handle = Callable[["Client", Command], None]


class Client:
    """Somebody who sends commands and is told news."""

    def __init__(self, name: str, *, reads: int, writes: int, wants_log: bool = False) -> None:
        """`reads` and `writes` are descriptors; what the process logs is told only to those who do not see it."""
        self.name = name
        self._reads = reads
        self._outlet = Outlet(writes, name)
        self._types: frozenset[str] | None = None
        self._is_leela: bool | None = None
        self._wants_log = wants_log
        self.interval_s = 0.9  # so that a status that is a moment late still comes within the second
        self.next_status = time.monotonic()
        """When it is to get the next status."""

    @property
    def is_gone(self) -> bool:
        """Whether it no longer reads."""
        return self._outlet.is_gone

    def listen(self, handle: Handle, at_end: Callable[[Client], None]) -> None:
        """Read what it says until it says no more; `handle` replies to each command exactly once, now or later."""
        threading.Thread(target=self._listen, args=(handle, at_end), name=f"from {self.name}", daemon=True).start()

    def wants(self, type: str) -> bool:
        """Whether it is to get notifications of this type."""
        if self._is_leela is not False:
            return type == LeelaStatus.type
        if type == LogLine.type and not self._wants_log:
            return False
        return self._types is None or type in self._types

    def subscribe(self, types: tuple[str, ...] | None, interval_s: float) -> None:
        """Choose what it gets from now on."""
        self._types = None if types is None else frozenset(types)
        self.interval_s = interval_s
        self.next_status = time.monotonic()

    def tell(self, payload: Payload) -> None:
        """Send a notification, if it wants it."""
        if self.wants(payload.type):
            self._outlet.tell(write_message(payload))

    def reply(self, payload: Payload, id: MessageId) -> None:
        """Answer a command or a bad line; a client of the Leela daemon finds what is wrong in the log."""
        if self._is_leela is not True:
            self._outlet.reply(write_message(payload, id, is_reply=True))
        elif isinstance(payload, Failure):
            log.error("%s", payload.message)

    def ack(self, command: Command, result: dict[str, Any]) -> None:
        """A command was carried out, or accepted."""
        self.reply(Ack(command=command.type, result=result), command.id)

    def refuse(self, command: Command, code: ErrorCode, message: str) -> None:
        """A command was not carried out."""
        self.reply(Failure(code=code, message=message, command=command.type), command.id)

    def close(self) -> None:
        """Send what is left and forget it."""
        self._outlet.close()

    def _listen(self, handle: Handle, at_end: Callable[[Client], None]) -> None:
        try:
            for line in read_lines(self._reads):
                self._take(handle, line)
        finally:
            at_end(self)

    def _take(self, handle: Handle, line: bytes | TooLong) -> None:
        if isinstance(line, TooLong):
            self._is_leela = False
            reason = f"a line has at most {MOST_BYTES:,} bytes; this one had {line.size:,}"
            self.reply(Failure(code="too_long", message=reason), find_id(line.beginning) or find_id(line.end))
            return
        found = parse_command(line)
        self._is_leela = self._is_leela is not False and _is_of_leela(found)
        if isinstance(found, BadLine):
            self.reply(found.failure, found.id)
        else:
            handle(self, found)


def _is_of_leela(found: Command | BadLine) -> bool:
    if isinstance(found, BadLine) or found.id is not None:
        return False
    if isinstance(found.payload, StartTraining):
        return found.payload.model_fields_set == {"config_filepath"}
    return isinstance(found.payload, StartTrainingImmediately)
