"""What happens in a live run, for its clients: from the run's own files, which have it anyway."""

from __future__ import annotations

import time
from collections.abc import Iterable

from ludus.daemon.messages import EpisodeNews, LeagueNews, Payload
from ludus.daemon.run_watch import RunNews
from ludus.runs.staged import AnyRun
from ludus.storage.run_directory import RunDirectory


class News:
    """Follows a loop from stage to stage. Belongs to one thread but for `newest`."""

    def __init__(self, loop: AnyRun) -> None:
        self._loop = loop
        self._run: RunDirectory | None = None
        self._reader: RunNews | None = None
        self._since = time.time()
        self._newest: dict[str, Payload] = {}

    def poll(self, *, episodes: bool, league: bool) -> list[Payload]:
        """What has happened since the last time; of the time before this process had the run, nothing."""
        run = self._loop.run
        if self._run is None or run.path != self._run.path:
            if not run.is_run():
                return []
            self._run, self._reader = run, RunNews(run, self._loop.config, since=self._since)
        if self._reader is None:
            return []
        news = self._reader.poll(episodes=episodes, league=league)
        self._newest |= {payload.type: payload for payload in news if isinstance(payload, EpisodeNews | LeagueNews)}
        return news

    def newest(self) -> Iterable[Payload]:
        """What a new client is told first."""
        return list(self._newest.values())
