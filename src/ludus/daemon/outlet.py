"""What a client is sent: replies that are never lost, and news of which only the newest are kept for a slow reader.

Invariant: whoever produces news never waits. Whoever replies waits while the client has left `MOST_REPLIES` of them
unread, so that a client that only talks is not listened to either, and memory is bounded.
"""

from __future__ import annotations

import os
import threading
from collections import deque

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
        self._count = 0
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
            self._replies.append((self._number(), line))
            self._wake.notify_all()

    def tell(self, line: bytes) -> None:
        """Send news; when too much is unread, the oldest make room."""
        with self._wake:
            if self.is_gone or self._closing:
                return
            if len(self._news) >= MOST_NEWS:
                self._news.popleft()
                self.dropped += 1
            self._news.append((self._number(), line))
            self._wake.notify_all()

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Send what is left, if the client still reads."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        self._thread.join(timeout_s)

    def _number(self) -> int:
        self._count += 1
        return self._count

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
