"""One client of a service: what it says is read by a thread of its own, what it is told goes through its outlet.

A client speaks ludus, or the Leela daemon's language: whoever begins with one of that daemon's two commands, in its own
shape and without an id, is told `training_status` and nothing else, since its reader ends at any other message. The
first line that only a client of ludus can have written changes that.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from ludus.daemon.lines import MOST_BYTES, TooLong, read_lines
from ludus.daemon.messages import Failure, LeelaStatus, LogLine, Payload, StartTraining, StartTrainingImmediately
from ludus.daemon.outlet import Outlet
from ludus.daemon.protocol import BadLine, Command, MessageId, find_id, parse_command, write_message

log = logging.getLogger(__name__)


class Handler(Protocol):
    """Carries out what clients want."""

    def handle(self, client: Client, command: Command) -> None:
        """Reply now or later, exactly once."""
        ...


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

    def listen(self, handler: Handler, at_end: Callable[[Client], None]) -> None:
        """Read what it says until it says no more."""
        threading.Thread(target=self._listen, args=(handler, at_end), name=f"from {self.name}", daemon=True).start()

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

    def close(self) -> None:
        """Send what is left and forget it."""
        self._outlet.close()

    def _listen(self, handler: Handler, at_end: Callable[[Client], None]) -> None:
        try:
            for line in read_lines(self._reads):
                self._take(handler, line)
        finally:
            at_end(self)

    def _take(self, handler: Handler, line: bytes | TooLong) -> None:
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
            handler.handle(self, found)


def _is_of_leela(found: Command | BadLine) -> bool:
    if isinstance(found, BadLine) or found.id is not None:
        return False
    if isinstance(found.payload, StartTraining):
        return found.payload.model_fields_set == {"config_filepath"}
    return isinstance(found.payload, StartTrainingImmediately)
