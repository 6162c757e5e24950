"""Commands on their way to the other side. Invariant: one that does not listen blocks this thread, never the screen."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future

from ludus.daemon.messages import Payload
from ludus.daemon.protocol import MessageId, write_command
from ludus.monitor.message_queue import Reply
from ludus.monitor.source import Pending, refused

MOST_WAITING = 100


class Outbox:
    """Writes lines in a thread of its own, until it is closed or the other side is gone."""

    def __init__(self, write: Callable[[bytes], object], *, name: str) -> None:
        self._write = write
        self._lines: queue.Queue[bytes | None] = queue.Queue(MOST_WAITING)
        self._pending = Pending()
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def send(self, command: Payload) -> Future[Reply]:
        """Send a command; the reply comes with its time."""
        if self._is_closed:
            return refused("nobody is there to be asked any more")
        id, future = self._pending.add()
        try:
            self._lines.put_nowait(write_command(command, id))
        except queue.Full:
            reason = f"it has taken none of the last {MOST_WAITING} commands; wait, or quit with ctrl+c"
            self._pending.give_up(reason)
        return future

    def resolve(self, id: MessageId, reply: Reply) -> None:
        """Hand a reply to whom it is for."""
        self._pending.resolve(id, reply)

    def close(self, reason: str) -> None:
        """Send nothing more, and answer whoever still waits."""
        self._is_closed = True
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait(None)
        self._pending.give_up(reason)

    def _work(self) -> None:
        while (line := self._lines.get()) is not None and not self._is_closed:
            try:
                self._write(line)
            except (OSError, ValueError):
                # How it ended is told by the thread that reads.
                return
