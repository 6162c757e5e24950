"""Whether the engine can be reached, and how long it is borne when it cannot.

Invariant: games that an unreachable engine interrupts are neither lost nor recorded; they are played again once it
answers, and until then one game at a time tries. When that has gone on for too long the run stops, with an error that
names the engine; what was interrupted is still to be played when the run goes on.
"""

from __future__ import annotations

import logging
import time

from ludus.errors import EngineLost, Unreachable

log = logging.getLogger(__name__)


class Interrupted(Exception):
    """The engine could not be reached: the game is to be played again from its beginning."""


class Outage:
    """The times that one engine is out of reach, as its runner sees them."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._since: float | None = None
        self.reason = ""
        """Why the engine cannot be reached now; empty while it can."""

    def begin(self, error: Unreachable) -> Interrupted:
        """A game could not reach the engine, again or for the first time; what to raise in it.

        Raises:
            EngineLost: nobody could reach it for longer than the patience lasts.
        """
        now = time.monotonic()
        if self._since is None:
            log.warning("%s", error)
            self._since = now
        self.reason = str(error)
        if now - self._since >= self._patience_s:
            raise EngineLost(
                f"{error}; explore.engine.patience_s = {self._patience_s:g} is over. Nothing is lost: start the server "
                "again, and the same command resumes the run"
            ) from error
        return Interrupted(self.reason)

    def end(self) -> None:
        """The engine has answered."""
        if self._since is not None:
            log.warning("the engine answers again, after %.0f s", time.monotonic() - self._since)
            self._since, self.reason = None, ""
