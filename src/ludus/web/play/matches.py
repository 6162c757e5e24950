"""Matches that somebody asked for at a cell of the payoff table: `ludus match`, as a process of low priority.

Invariant: at most `MOST_MATCHES` are played at a time, one for each session, none longer than `MATCH_S` and none after
the server; what a process says is bounded, and one that fails costs its own match.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
import shutil
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Any

from ludus.web.answers import Refused

COMMAND = ("-m", "ludus.cli.app", "match", "--json")
"""What a process runs."""
MOST_MATCHES = 2
MOST_KEPT = 32
"""Matches whose result a page may ask for."""
MATCH_S = 1800.0
MOST_LINE = 1_000_000
MOST_TOLD = 2000
PROGRESS = re.compile(r"([\d,]+) of [\d,]+ games")


class Match:
    """One match, and what is known of it."""

    def __init__(self, process: asyncio.subprocess.Process, owner: str, asked: Mapping[str, Any]) -> None:
        self.owner = owner
        """Of which session."""
        self.state: dict[str, Any] = {**asked, "state": "playing", "done": 0, "report": None, "problem": ""}
        self._process = process
        self._following = asyncio.create_task(self._follow())

    @property
    def is_over(self) -> bool:
        """Whether no process plays it any more."""
        return self._following.done()

    async def stop(self) -> None:
        """End it."""
        self._kill()
        await self._following

    async def _follow(self) -> None:
        said: deque[str] = deque(maxlen=8)
        try:
            async with asyncio.timeout(MATCH_S):
                _, told = await asyncio.gather(self._hear(said), self._read())
                code = await self._process.wait()
            if code == 0:
                self.state |= {"state": "done", "done": self.state["games"], "report": json.loads(told)}
            elif code < 0:
                self.state |= {"state": "stopped", "problem": "the match was stopped"}
            else:
                why = "\n".join(said)[-MOST_TOLD:] or f"it ended with code {code}"
                self.state |= {"state": "failed", "problem": why}
        except TimeoutError:
            self.state |= {"state": "failed", "problem": f"it was not over after {MATCH_S / 60:g} minutes"}
        except ValueError as error:
            self.state |= {"state": "failed", "problem": f"its result cannot be read: {error}"[:MOST_TOLD]}
        finally:
            self._kill()
            with contextlib.suppress(ProcessLookupError):
                await self._process.wait()

    async def _hear(self, said: deque[str]) -> None:
        """How many games are over; the last of what else was said is why it failed."""
        async for line in _lines(self._process.stderr):
            found = PROGRESS.fullmatch(line)
            if found is not None:
                self.state["done"] = int(found[1].replace(",", ""))
            elif line:
                said.append(line[:MOST_TOLD])

    async def _read(self) -> str:
        last = ""
        async for line in _lines(self._process.stdout):
            last = line or last
        return last

    def _kill(self) -> None:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()


async def _lines(pipe: asyncio.StreamReader | None) -> AsyncIterator[str]:
    """Lines without their ends.

    Raises:
        ValueError: one has more than `MOST_LINE` bytes.
    """
    assert pipe is not None  # noqa: S101 - both are pipes
    while line := await pipe.readline():
        yield line.decode("utf-8", "replace").strip()


class Matches:
    """All matches of one server. On the event loop."""

    def __init__(self) -> None:
        self._matches: dict[str, Match] = {}
        self._beginning = asyncio.Lock()

    async def begin(self, run: str, asked: Mapping[str, Any], owner: str) -> dict[str, Any]:
        """Begin a match; a session's match before ends. `run` is the run's directory."""
        async with self._beginning:  # one after the other: requests that come together are counted, too
            return await self._begin(run, asked, owner)

    async def _begin(self, run: str, asked: Mapping[str, Any], owner: str) -> dict[str, Any]:
        for match in self._matches.values():
            if match.owner == owner and not match.is_over:
                await match.stop()
        if sum(not match.is_over for match in self._matches.values()) >= MOST_MATCHES:
            raise Refused(f"{MOST_MATCHES} matches are being played; wait until one is over", status=503)
        options = ["--games", str(asked["games"]), "--seed", str(asked["seed"])]
        options += ["--game", asked["game"]] if asked["game"] else []
        options += ["--record"] if asked["record"] else []
        program = shutil.which("nice")
        nice = (program, "-n", "5") if program else ()
        words = (*nice, sys.executable, *COMMAND, *options, "--", run, asked["row"], asked["column"])
        none, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*words, stdin=none, stdout=pipe, stderr=pipe, limit=MOST_LINE)
        id = secrets.token_urlsafe(12)
        self._matches[id] = Match(process, owner, {"id": id, **asked})
        for old in [key for key, match in self._matches.items() if match.is_over][:-MOST_KEPT]:
            del self._matches[old]
        return self._matches[id].state

    def find(self, id: str, owner: str) -> Match:
        """A match of this session."""
        match = self._matches.get(id)
        if match is None or match.owner != owner:
            raise Refused("there is no such match (any more)", status=404)
        return match

    async def close(self) -> None:
        """End all."""
        for match in self._matches.values():
            await match.stop()
        self._matches.clear()
