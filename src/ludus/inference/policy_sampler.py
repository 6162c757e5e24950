"""The way from a conversation to the policy's engine: what happens when the engine is out of reach included.

Invariant: games that an unreachable engine interrupts are neither lost nor recorded; they are played again once it
answers, and until then one game at a time tries. When that has gone on for too long the run stops, with an error that
names the engine; what was interrupted is still to be played when the run goes on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Set

from ludus.config import SamplingConfig
from ludus.errors import EngineLost, Unreachable
from ludus.inference.conversation import ChatTemplate
from ludus.inference.protocol import Completion, Engine, Request, Sampling
from ludus.runtime import Pulse

log = logging.getLogger(__name__)

ANSWER_S = 600.0
"""Limit of one reply."""


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


class PolicySampler:
    """Samples replies from one engine, for any number of conversations at once."""

    def __init__(
        self,
        engine: Engine,
        template: ChatTemplate,
        *,
        context: int = 0,
        patience_s: float = 0.0,
        pulse: Pulse | None = None,
    ) -> None:
        """`context`: tokens that a conversation may have. `patience_s`: how long the engine may be out of reach."""
        self.engine = engine
        self.template = template
        self.context = context
        self.outage = Outage(patience_s)
        self.pulse = pulse or Pulse()

    async def sample(self, request: Request) -> Completion:
        """Write one completion.

        Raises:
            Interrupted: the engine is out of reach; the task is to begin again.
            EngineLost: it has been for too long.
            PolicyError, TimeoutExceeded: as the engine raises them.
        """
        try:
            completion = await self.engine.generate(request)
        except Unreachable as error:
            raise self.outage.begin(error) from error
        self.outage.end()
        self.pulse.tick()
        return completion


def make_sampling(config: SamplingConfig, stop_tokens: Set[int], *, max_tokens: int | None = None) -> Sampling:
    """How the policy's tokens are drawn; `max_tokens` of a reply, where it is not what `config` says."""
    return Sampling(
        max_tokens=max_tokens or config.max_tokens,
        temperature=config.temperature,
        top_p=config.top_p,
        top_k=config.top_k,
        stop_tokens=frozenset() if config.ignore_end else frozenset(stop_tokens),
    )
