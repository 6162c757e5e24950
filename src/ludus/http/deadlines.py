"""Connections that keep a server waiting are closed: no request, half a request, or a reply that nobody takes.

Invariant: what a client owes has a deadline from the moment it is owed; bytes that trickle in do not move it. Work of
ours has none here: a reply is bounded by whoever writes it.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 20.0
"""From the connection, or the first byte after a reply, to the end of a request's headers."""
BODY_S = 60.0
"""From the headers to the end of the body."""
TAKE_S = 60.0
"""Without a byte of a reply taken."""
AFTERWARDS_S = 5.0
"""What a body that is late is left open for, so that its client hears why."""
LOOK_S = 1.0


class DeadlineProtocol(H11Protocol):
    """A connection of uvicorn's that is looked at every second."""

    _owed: object = None
    _since: float = 0.0
    _look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._look_at()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        if self._look is not None:
            self._look.cancel()
        super().connection_lost(exc)

    def _look_at(self) -> None:
        now = self.loop.time()
        owed, limit_s = self._what_is_owed()
        if owed != self._owed:
            self._owed, self._since = owed, now
        if owed is not None and now - self._since >= limit_s:
            self.transport.abort()
            return
        self._look = self.loop.call_later(min(LOOK_S, limit_s), self._look_at)

    def _what_is_owed(self) -> tuple[object, float]:
        """What the client has to do next, equal as long as it does not do it, and how long it may take."""
        if unsent := self.transport.get_write_buffer_size():
            return ("take", unsent), TAKE_S
        if self.conn.their_state is h11.IDLE:
            return ("head", self.cycle), HEAD_S
        if self.conn.their_state is h11.SEND_BODY:
            return ("body", self.cycle), BODY_S + AFTERWARDS_S
        return None, LOOK_S
