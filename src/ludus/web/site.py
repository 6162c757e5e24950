"""What every handler works with: the folder of runs, the sessions, what is known of runs. One for each server."""

from __future__ import annotations

import asyncio

from ludus.monitor.metric_columns import ColumnCache
from ludus.monitor.run_index import RunIndex
from ludus.web.news.newsroom import Newsroom
from ludus.web.play import Matches, PlayTables
from ludus.web.run_readers import RunReaders
from ludus.web.runs_folder import RunsFolder
from ludus.web.security.sessions import Sessions

READERS = 4
"""Threads that read files at the same time; more would take the machine from the runs."""


class Site:
    """One server's state."""

    def __init__(self, folder: RunsFolder, sessions: Sessions | None = None) -> None:
        self.folder = folder
        self.sessions = Sessions() if sessions is None else sessions
        self.index = RunIndex(folder.path, folder.ids)
        self.runs = RunReaders()
        self.tables = PlayTables()
        self.matches = Matches()
        self.columns = ColumnCache()
        self.newsroom = Newsroom()
        self.readers = asyncio.Semaphore(READERS)

    async def close(self) -> None:
        """Leave every run that is watched, and end every game and match."""
        await self.newsroom.close()
        await self.tables.close()
        await self.matches.close()
