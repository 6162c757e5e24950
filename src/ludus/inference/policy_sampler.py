"""The way from a conversation to the policy's engine: what happens when the engine is out of reach included.

Invariant: games that an unreachable engine interrupts are neither lost nor recorded; they are played again once it
answers, and until then one game at a time tries. When that has gone on for too long the run stops, with an error that
names the engine; what was interrupted is still to be played when the run goes on.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Set

from ludus.config import SamplingConfig
from ludus.errors import EngineLost, Unreachable
from ludus.inference.conversation import ChatTemplate
from ludus.inference.protocol import Completion, Engine, Request, Sampling, ShowsProgress
from ludus.runtime import Pulse

log = logging.getLogger(__name__)

ANSWER_S = 600.0
"""Limit of one reply."""


class Interrupted(Exception):
    """The engine could not be reached: the game is to be played again from its beginning."""


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
        self.pulse = pulse or Pulse()
        self.trouble = ""
        """Why the engine cannot be reached now; empty while it can."""
        self._patience_s = patience_s
        self._lost_since: float | None = None
        self._sampled: Counter[str] = Counter()
        """Tokens of finished replies, by episode."""

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
            raise self._interruption(error) from error
        if self._lost_since is not None:
            log.warning("the engine answers again, after %.0f s", time.monotonic() - self._lost_since)
            self._lost_since, self.trouble = None, ""
        self.pulse.tick()
        self._sampled[_episode(request.session)] += len(completion.tokens)
        return completion

    def sampled(self) -> Counter[str]:
        """Tokens that were sampled so far in every episode that is not over, by its id; of a reply that is being
        written only where the engine tells."""
        totals = self._sampled.copy()
        for session, tokens in self.engine.writing() if isinstance(self.engine, ShowsProgress) else ():
            totals[_episode(session)] += tokens
        return totals

    def end_episode(self, episode: str) -> int:
        """The episode is over, or begins again; returns the tokens that were sampled in it."""
        return self._sampled.pop(episode, 0)

    def _interruption(self, error: Unreachable) -> Interrupted | EngineLost:
        """What to raise in a game that cannot reach the engine, again or for the first time."""
        now = time.monotonic()
        if self._lost_since is None:
            log.warning("%s", error)
            self._lost_since = now
        self.trouble = str(error)
        if now - self._lost_since < self._patience_s:
            return Interrupted(self.trouble)
        return EngineLost(
            f"{error}; explore.engine.patience_s = {self._patience_s:g} is over. Nothing is lost: start the server "
            "again, and the same command resumes the run"
        )


def _episode(session: str) -> str:
    """Sessions are named after their episodes: `<episode>/<seat>`, `<episode>/<try>/<chat>`."""
    return session.partition("/")[0]


def make_sampling(config: SamplingConfig, stop_tokens: Set[int], *, max_tokens: int | None = None) -> Sampling:
    """How the policy's tokens are drawn; `max_tokens` of a reply, where it is not what `config` says."""
    return Sampling(
        max_tokens=max_tokens or config.max_tokens,
        temperature=config.temperature,
        top_p=config.top_p,
        top_k=config.top_k,
        stop_tokens=frozenset() if config.ignore_end else frozenset(stop_tokens),
    )
