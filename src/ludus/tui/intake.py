"""Where the reader's thread leaves what came, and where the screen takes it from, a few times a second.

Invariant: whatever comes, and however fast, no more than a fixed number of messages and bytes wait here. Of what
describes a state (`status`, `league`, `episode`) only the newest is kept, and nobody looks into it before it is
painted; what is one of many goes into a queue that loses its oldest and counts them. Nothing here raises for what a
line holds.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ludus.daemon.messages import Ack, EpisodeNews, Failure, LeagueNews, LeelaStatus, LogLine, Payload, Status
from ludus.daemon.protocol import Envelope, MessageId, parse_notification, read_payload

STATES = frozenset(kind.type for kind in (Status, LeagueNews, EpisodeNews, LeelaStatus))
"""Messages of which only the newest matters."""
MOST_MESSAGES, MOST_BYTES = 1000, 4_000_000
"""What a queue holds between two paints."""
MOST_LOG_CHARACTERS = 4000

Unread = tuple[Envelope, type[Payload]]
Reply = Ack | Failure


@dataclass(frozen=True, slots=True)
class Note:
    """One of many messages, and when it came."""

    number: int
    at_s: float
    """Seconds since the epoch."""
    what: Payload
    is_retold: bool = False
    """Whether it may have come before, by another way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """What could not be shown, since the start."""

    skipped: Mapping[str, int] = field(default_factory=dict)
    """Messages that came faster than they could be painted, by type."""
    unreadable: int = 0
    """Lines that are no message."""
    too_long: int = 0

    @property
    def skipped_in_all(self) -> int:
        """Messages of all types that were left out."""
        return sum(self.skipped.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What has come since the last paint."""

    states: Mapping[str, Payload]
    notes: list[Note]
    losses: Losses
    received: int
    """Messages since the start."""


class _Waiting(NamedTuple):
    number: int
    at_s: float
    what: Unread | Payload
    size_bytes: int
    is_retold: bool


@dataclass(slots=True)
class _Queue:
    """Messages of one type that wait, oldest first."""

    waiting: deque[_Waiting] = field(default_factory=deque)
    size_bytes: int = 0
    lost: int = 0

    def put(self, message: _Waiting) -> None:
        self.waiting.append(message)
        self.size_bytes += message.size_bytes
        while len(self.waiting) > MOST_MESSAGES or self.size_bytes > MOST_BYTES:
            self.size_bytes -= self.waiting.popleft().size_bytes
            self.lost += 1


class Intake:
    """Between one thread that reads and one that paints."""

    def __init__(self, *, on_reply: Callable[[MessageId, Reply], None] | None = None) -> None:
        self._on_reply = on_reply
        self._lock = threading.Lock()
        self._states: dict[str, Unread | Payload] = {}
        self._queues: dict[str, _Queue] = {}
        self._number = self._unreadable = self._too_long = 0
        self.last_news_s = time.monotonic()
        """When anything came last (monotonic)."""

    def answer_to(self, on_reply: Callable[[MessageId, Reply], None]) -> None:
        """Where replies to commands go; called by the source when it starts."""
        self._on_reply = on_reply

    def take_lines(self, lines: Iterable[bytes], *, too_long: int = 0) -> None:
        """Take lines of the protocol; called by the reader's thread."""
        replies: list[Unread] = []
        with self._lock:
            now = time.time()
            self._too_long += too_long
            for line in lines:
                found = parse_notification(line)
                if found is None:
                    self._unreadable += bool(line.strip())
                elif found[1] is Ack or (found[1] is Failure and found[0].id is not None):
                    replies.append(found)
                else:
                    self._put(found[1].type, now, found, len(line))
        self.last_news_s = time.monotonic()
        for reply in replies:
            self._answer(reply)

    def take(self, payloads: Iterable[Payload], *, is_retold: bool = False) -> None:
        """Take messages that have been read already; those that may have come before are shown once."""
        with self._lock:
            now = time.time()
            for payload in payloads:
                self._put(payload.type, now, payload, 1000, is_retold=is_retold)
        self.last_news_s = time.monotonic()

    def take_log(self, lines: Iterable[bytes]) -> None:
        """Take lines of a log, whatever they hold."""
        texts = [line[:MOST_LOG_CHARACTERS].decode("utf-8", "replace").rstrip("\r") for line in lines]
        with self._lock:
            now = time.time()
            for text in texts:
                self._put(LogLine.type, now, LogLine(line=text), len(text))

    def drain(self) -> News:
        """Everything that waits, read; called before a paint."""
        with self._lock:
            states, self._states = self._states, {}
            waiting = [each for queue in self._queues.values() for each in queue.waiting]
            for queue in self._queues.values():
                queue.waiting.clear()
                queue.size_bytes = 0
        read = [(each, _read(each.what)) for each in sorted(waiting, key=lambda each: each.number)]
        known = {kind: _read(what) for kind, what in states.items() if kind != LeelaStatus.type}
        wrong = sum(what is None for _, what in read) + sum(what is None for what in known.values())
        with self._lock:
            self._unreadable += wrong
            skipped = {kind: queue.lost for kind, queue in self._queues.items() if queue.lost}
            losses = Losses(skipped=skipped, unreadable=self._unreadable, too_long=self._too_long)
        return News(
            states={kind: what for kind, what in known.items() if what is not None},
            notes=[Note(each.number, each.at_s, what, each.is_retold) for each, what in read if what is not None],
            losses=losses,
            received=self._number,
        )

    def _put(self, kind: str, at_s: float, what: Unread | Payload, size_bytes: int, *, is_retold: bool = False) -> None:
        self._number += 1
        if kind in STATES:
            self._states[kind] = what
        else:
            queue = self._queues.get(kind)
            if queue is None:
                queue = self._queues[kind] = _Queue()
            queue.put(_Waiting(self._number, at_s, what, size_bytes, is_retold))

    def _answer(self, found: Unread) -> None:
        reply = read_payload(*found)
        if self._on_reply is not None and isinstance(reply, Ack | Failure):
            self._on_reply(found[0].id, reply)


def _read(what: Unread | Payload) -> Payload | None:
    return what if isinstance(what, Payload) else read_payload(*what)
