"""All runs that are looked at now, and the streams that tell browsers of them.

Invariant: so many runs and so many streams at most; a run that nobody has looked at for a while is left. A reader that
does not take what it is sent holds up nobody but itself.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from ludus.web.answers import Refused, to_json
from ludus.web.news.watched_run import Cursor, WatchedRun

log = logging.getLogger(__name__)

MOST_STREAMS, MOST_RUNS = 48, 24
LOOK_S, BEAT_S, IDLE_S = 0.5, 3.0, 30.0


class Newsroom:
    """Belongs to the event loop."""

    def __init__(self) -> None:
        self._runs: dict[Path, WatchedRun] = {}
        self._streams = 0
        self._task: asyncio.Task[None] | None = None
        self.is_closed = False

    def watch(self, path: Path) -> WatchedRun:
        """A run that is looked at from now on.

        Raises:
            Refused: too many are.
        """
        run = self._runs.get(path)
        if run is None:
            if len(self._runs) >= MOST_RUNS:
                raise Refused(f"{MOST_RUNS} runs are looked at already; close a page", status=503)
            run = self._runs[path] = WatchedRun(path)
        run.last_wanted_s = time.monotonic()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._look())
        return run

    def open_stream(self, path: Path) -> AsyncGenerator[bytes]:
        """News of a run as server-sent events: what is known first, then what changes.

        Raises:
            Refused: too many streams are open.
        """
        if self._streams >= MOST_STREAMS:
            raise Refused(f"{MOST_STREAMS} pages follow runs already; close one", status=503)
        run = self.watch(path)
        self._streams += 1
        return self._tell(run)

    def end_stream(self) -> None:
        """One stream is over."""
        self._streams -= 1

    async def _tell(self, run: WatchedRun) -> AsyncGenerator[bytes]:
        cursor, told_s = Cursor(), 0.0
        while not self.is_closed:
            run.last_wanted_s = now = time.monotonic()
            if found := run.changes(cursor):
                yield _event("news", found)
                told_s = now
            elif now - told_s >= BEAT_S:
                yield _event("beat", run.beat())
                told_s = now
            await asyncio.sleep(LOOK_S)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            for path, run in list(self._runs.items()):
                try:
                    await asyncio.to_thread(run.refresh)
                except Exception:  # a supervisor: what one run says must not end the news of all others
                    log.exception("news of %s", path)
                if time.monotonic() - run.last_wanted_s > IDLE_S:
                    del self._runs[path]
                    await asyncio.to_thread(run.close)

    def end_streams(self) -> None:
        """Let every stream end, within `LOOK_S`."""
        self.is_closed = True

    async def close(self) -> None:
        """Leave every run; streams end."""
        self.end_streams()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        runs, self._runs = list(self._runs.values()), {}
        await asyncio.gather(*(asyncio.to_thread(run.close) for run in runs))


def _event(kind: str, value: dict[str, Any]) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + to_json(value) + b"\n\n"
