"""Where the reader's thread leaves what came, and where the screen takes it from, a few times a second.

Invariant: whatever comes, and however fast, no more than a fixed number of messages and bytes wait here. Of what
describes a state (`status`, `league`, `episode`) only the newest is kept; what is one of many goes into a queue that
loses its oldest and counts them. The reader's thread looks only at how a line begins; what it says is read before it is
painted, if it is. Nothing here raises for what a line holds.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter

from ludus.daemon import messages
from ludus.daemon.protocol import MessageId, TooLong, parse_notification, read_payload

STATES = frozenset(
    kind.type for kind in (messages.Status, messages.LeagueNews, messages.EpisodeNews, messages.LeelaStatus)
)
"""Messages of which only the newest matters."""
MOST_MESSAGES, MOST_BYTES = 1000, 4_000_000
"""What a queue holds between two paints."""
MOST_LOG_CHARACTERS = 4000

_BEGIN, _TYPE_AT, _TYPE_ENDS_BEFORE = b'{"type":"', 9, 48
"""How a line of ours begins, and where its type is."""

Message = bytes | messages.Payload
"""A line that nobody has looked into yet, or what was read already."""
Reply = messages.Ack | messages.Failure


@dataclass(frozen=True, slots=True)
class Note:
    """One of many messages, and when it came; of an event of the past, when it happened."""

    number: int
    at_s: float
    """Seconds since the epoch."""
    what: messages.Payload
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

    states: Mapping[str, messages.Payload]
    notes: list[Note]
    losses: Losses
    received: int
    """Messages since the start."""


_Waiting = tuple[int, float, Message, int, bool]
"""Number, when it came, what it is, its size, whether it may have come before."""


class _Queue:
    """Messages of one type that wait, oldest first."""

    __slots__ = ("lost", "size_bytes", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[_Waiting] = deque()
        self.size_bytes = self.lost = 0

    def put(self, message: _Waiting) -> None:
        self.waiting.append(message)
        self.size_bytes += message[3]
        while len(self.waiting) > MOST_MESSAGES or self.size_bytes > MOST_BYTES:
            self.size_bytes -= self.waiting.popleft()[3]
            self.lost += 1


class MessageQueue:
    """Between one thread that reads and one that paints."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self.on_reply: Callable[[MessageId, Reply], None] | None = None
        """Where replies to commands go; set by the source when it starts."""
        self._lock = threading.Lock()
        self._states: dict[str, Message] = {}
        self._queues = {kind: _Queue() for kind in messages.NOTIFICATIONS.keys() - STATES}
        self._by_bytes = {kind.encode(): queue for kind, queue in self._queues.items() if kind not in messages.REPLIES}
        self._number = self._unreadable = self._too_long = 0
        self.last_news_s = time.monotonic()
        """When anything came last (monotonic)."""

    def take_lines(self, lines: Iterable[bytes | TooLong]) -> None:
        """Take lines of the protocol; called by the reader's thread."""
        replies: list[tuple[MessageId, Reply]] = []
        queues, begin = self._by_bytes, _BEGIN
        with self._lock:
            now = self._clock()
            for line in lines:
                if isinstance(line, TooLong):
                    self._too_long += 1
                    continue
                kind = line[_TYPE_AT : line.find(b'"', _TYPE_AT, _TYPE_ENDS_BEFORE)]
                queue = queues.get(kind)
                if queue is not None and line.startswith(begin):
                    self._number += 1
                    queue.put((self._number, now, line, len(line), False))
                elif (reply := self._take_other(line, now)) is not None:
                    replies.append(reply)
        self.last_news_s = time.monotonic()
        if self.on_reply is not None:
            for id, answer in replies:
                self.on_reply(id, answer)

    def _take_other(self, line: bytes, now: float) -> tuple[MessageId, Reply] | None:
        """Replies, failures of the run, messages that are written in another way, and what is none."""
        found = parse_notification(line)
        if found is None:
            self._unreadable += bool(line.strip())
            return None
        envelope, kind = found
        if kind is not messages.Ack and (kind is not messages.Failure or envelope.id is None):
            self._put(kind.type, now, line, len(line))
            return None
        payload = read_payload(envelope, kind)
        if isinstance(payload, messages.Ack | messages.Failure):
            return envelope.id, payload
        self._unreadable += 1
        return None

    def take(self, payloads: Iterable[messages.Payload], *, is_retold: bool = False) -> None:
        """Take messages that have been read already; those that may have come before are shown once."""
        with self._lock:
            now = self._clock()
            for payload in payloads:
                at_s = payload.at_s if isinstance(payload, messages.NewsPayload) else None
                self._put(payload.type, now if at_s is None else at_s, payload, 1000, is_retold=is_retold)
        self.last_news_s = time.monotonic()

    def take_log(self, lines: Iterable[bytes]) -> None:
        """Take lines of a log, whatever they hold."""
        texts = [line[:MOST_LOG_CHARACTERS].decode("utf-8", "replace").rstrip("\r") for line in lines]
        with self._lock:
            now = self._clock()
            for text in texts:
                self._put(messages.LogLine.type, now, messages.LogLine(line=text), len(text))

    def drain(self) -> News:
        """Everything that waits, read; called before a paint."""
        with self._lock:
            states, self._states = self._states, {}
            waiting = [each for queue in self._queues.values() for each in queue.waiting]
            for queue in self._queues.values():
                queue.waiting.clear()
                queue.size_bytes = 0
        read = [(each, _read(each[2])) for each in sorted(waiting, key=itemgetter(0))]
        known = {kind: _read(what) for kind, what in states.items() if kind != messages.LeelaStatus.type}
        wrong = sum(what is None for _, what in read) + sum(what is None for what in known.values())
        with self._lock:
            self._unreadable += wrong
            skipped = {kind: queue.lost for kind, queue in self._queues.items() if queue.lost}
            losses = Losses(skipped=skipped, unreadable=self._unreadable, too_long=self._too_long)
        return News(
            states={kind: what for kind, what in known.items() if what is not None},
            notes=[Note(each[0], each[1], what, each[4]) for each, what in read if what is not None],
            losses=losses,
            received=self._number,
        )

    def _put(self, kind: str, at_s: float, what: Message, size_bytes: int, *, is_retold: bool = False) -> None:
        self._number += 1
        if kind in STATES:
            self._states[kind] = what
        else:
            self._queues[kind].put((self._number, at_s, what, size_bytes, is_retold))


def _read(what: Message) -> messages.Payload | None:
    """What a message says; None for what only begins like one."""
    if isinstance(what, messages.Payload):
        return what
    found = parse_notification(what)
    return None if found is None else read_payload(*found)
