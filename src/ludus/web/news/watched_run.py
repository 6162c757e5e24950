"""One run that is looked at: what it says, as far as it has been heard, and what has changed since a reader last asked.

Invariant: memory is bounded whatever the run says and however slow a reader is. A reader is a number of revisions: it
gets the newest state, never a queue of old ones; of the log it gets the lines that are still kept, and how many it
missed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from ludus.daemon import messages
from ludus.daemon.run_watch import RunWatch
from ludus.monitor.live_sources import WANTED, AttachedSource
from ludus.monitor.message_queue import MessageQueue, Reply
from ludus.monitor.run_view import Entry, RunView

QUIET_NEWS = tuple(name for name in WANTED if name not in (messages.EpisodeNews.type, messages.LeagueNews.type))
"""What the page is not told of: it reads the league and the episodes from files, when somebody looks at them."""
MOST_LINES = 500
"""Of the log in one message."""


@dataclass(slots=True)
class Cursor:
    """What a reader has been told."""

    status: int = 0
    """The first is told when the run has said how it is."""
    metrics: int = -1
    logged: int = 0
    connection: object = None


class WatchedRun:
    """A run, live or as it was left."""

    def __init__(self, path: Path) -> None:
        self._source = AttachedSource(path, partial(RunWatch, pictures=False), wanted=QUIET_NEWS)
        self._queue = MessageQueue()
        self._view = RunView()
        self._revisions = {"status": 0, "metrics": 0}
        self._status: dict[str, Any] = {}
        self._lock = threading.Lock()
        self.last_wanted_s = time.monotonic()
        self._source.start(self._queue)

    @property
    def is_live(self) -> bool:
        """Whether a command would be heard."""
        return self._source.connection.is_live

    @property
    def is_known(self) -> bool:
        """Whether it is known how things stand."""
        return self._source.connection.state != "starting"

    def send(self, command: messages.Payload) -> Future[Reply]:
        """Ask the run's process for something."""
        return self._source.send(command)

    def refresh(self) -> None:
        """Take what has come."""
        with self._lock:
            view = self._view
            view.connection = self._source.connection
            view.quiet_s = time.monotonic() - self._queue.last_news_s
            changed = view.absorb(self._queue.drain())
            self._revisions["metrics"] += "metrics" in changed
            if "status" in changed:
                # A run that nobody runs is read again and again, and is as it was.
                told = {"status": view.status.model_dump(mode="json", exclude={"metrics"}), "failure": view.failure}
                self._revisions["status"] += told != self._status
                self._status = told

    def changes(self, cursor: Cursor) -> dict[str, Any]:
        """What a reader has not been told yet; the cursor moves on. Empty when there is nothing."""
        with self._lock:
            view, found = self._view, dict[str, Any]()
            if cursor.status != self._revisions["status"]:
                cursor.status = self._revisions["status"]
                found |= self._status
            if cursor.metrics != self._revisions["metrics"]:
                cursor.metrics = self._revisions["metrics"]
                found["metrics"] = cursor.metrics
            if cursor.logged < view.logged:
                found["log"] = self._new_lines(cursor)
            connection = self._connection()
            if found or cursor.connection != connection["words"]:
                cursor.connection = connection["words"]
                found["connection"] = connection
            return found

    def beat(self) -> dict[str, Any]:
        """How things stand when nothing has changed."""
        with self._lock:
            return {"connection": self._connection()}

    def close(self) -> None:
        """Leave the run as it is. Blocks, at most two seconds."""
        self._source.close()

    def _connection(self) -> dict[str, Any]:
        view = self._view
        losses: Mapping[str, int] = view.losses.skipped
        return {
            "state": view.connection.state,
            "words": view.connection.words,
            "quiet_s": round(view.quiet_s, 1),
            "skipped": dict(losses),
            "unreadable": view.losses.unreadable,
            "too_long": view.losses.too_long,
        }

    def _new_lines(self, cursor: Cursor) -> dict[str, Any]:
        view = self._view
        missing = view.logged - cursor.logged
        kept = min(missing, len(view.log), MOST_LINES)
        lines = islice(view.log, len(view.log) - kept, None)
        cursor.logged = view.logged
        return {"lines": [_line(entry) for entry in lines], "missed": missing - kept}


def _line(entry: Entry) -> dict[str, Any]:
    return {"at": entry.at_s, "kind": entry.kind, "text": entry.text}
