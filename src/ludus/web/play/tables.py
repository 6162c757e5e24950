"""The games that are being played: a child process for each, spoken to in JSON lines.

Invariant: at most `MOST_TABLES` processes, none without a person for longer than `IDLE_S`, none after the server; what
a child says is bounded, and a child that dies or hangs costs its own game.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import sys
import time
from typing import Any

from ludus.web.answers import Refused

MODULE = "ludus.cli.play_lines"
"""What a child runs."""
MOST_TABLES = 4
IDLE_S = 900.0
START_S, MOVE_S = 120.0, 120.0
MOST_LINE = 2_000_000
MOST_TOLD = 2000


class PlayTable:
    """One game, and the process that plays the other seats."""

    def __init__(self, process: asyncio.subprocess.Process, owner: str) -> None:
        self.owner = owner
        """Of which session."""
        self.state: dict[str, Any] = {}
        self.used = time.monotonic()
        self._process = process
        self._lock = asyncio.Lock()

    async def begin(self) -> dict[str, Any]:
        """Wait for the first state."""
        async with self._lock:
            return await self._read(START_S)

    async def move(self, move: int | str) -> dict[str, Any]:
        """Say a move; returns the game after the others have moved, too."""
        async with self._lock:
            self.used = time.monotonic()
            if not self.state.get("turn"):
                raise Refused("it is not your turn, or the game is over", status=409)
            if self._process.stdin is None:
                raise Refused("the game has ended", status=410)
            with contextlib.suppress(OSError):
                self._process.stdin.write(json.dumps({"move": move}).encode() + b"\n")
                await self._process.stdin.drain()
            return await self._read(MOVE_S)

    async def close(self) -> None:
        """End the process."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        with contextlib.suppress(ProcessLookupError):
            await self._process.wait()

    async def _read(self, patience_s: float) -> dict[str, Any]:
        assert self._process.stdout is not None  # noqa: S101 - it is always a pipe
        try:
            async with asyncio.timeout(patience_s):
                line = await self._process.stdout.readline()
        except (TimeoutError, ValueError):
            await self.close()
            raise Refused(f"the policy did not move within {patience_s:g} s; the game is over", status=504) from None
        if not line:
            raise Refused(await self._why(), status=410)
        state: dict[str, Any] = json.loads(line)
        if state.get("error") and not state.get("turn") and not state.get("moves"):
            raise Refused(str(state["error"])[:MOST_TOLD], status=422)
        self.state, self.used = state, time.monotonic()
        return state

    async def _why(self) -> str:
        """What the process said last, when it ended without a word."""
        told = b""
        if self._process.stderr is not None:
            with contextlib.suppress(TimeoutError, ValueError):
                async with asyncio.timeout(5):
                    told = await self._process.stderr.read(MOST_LINE)
        last = told.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return f"the game has ended: {last[:MOST_TOLD] or 'its process is gone'}"


class PlayTables:
    """All games of one server. On the event loop."""

    def __init__(self) -> None:
        self._tables: dict[str, PlayTable] = {}
        self._opening = asyncio.Lock()

    async def open(self, wanted: dict[str, Any], owner: str) -> tuple[str, dict[str, Any]]:
        """Begin a game; returns its id and first state. A session's game before makes room."""
        async with self._opening:  # one after the other: requests that come together are counted, too
            id, table = await self._start(wanted, owner)
        try:
            return id, await table.begin()
        except BaseException:
            self._tables.pop(id, None)
            await table.close()
            raise

    def find(self, id: str, owner: str) -> PlayTable:
        """A game of this session."""
        table = self._tables.get(id)
        if table is None or table.owner != owner:
            raise Refused("there is no such game (any more)", status=404)
        return table

    async def close(self) -> None:
        """End all."""
        for table in self._tables.values():
            await table.close()
        self._tables.clear()

    async def _start(self, wanted: dict[str, Any], owner: str) -> tuple[str, PlayTable]:
        await self._clear(owner)
        if len(self._tables) >= MOST_TABLES:
            raise Refused(f"{MOST_TABLES} games are being played; end one first", status=503)
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", MODULE, json.dumps(wanted), stdin=pipe, stdout=pipe, stderr=pipe, limit=MOST_LINE
        )
        id, table = secrets.token_urlsafe(12), PlayTable(process, owner)
        self._tables[id] = table
        return id, table

    async def _clear(self, owner: str) -> None:
        """End this session's game, and those that nobody has touched for long."""
        now = time.monotonic()
        for id, table in list(self._tables.items()):
            if table.owner == owner or now - table.used > IDLE_S:
                await table.close()
                self._tables.pop(id, None)
