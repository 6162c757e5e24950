"""The way from a conversation to the policy's engine: what happens when the engine is out of reach included.

Invariant: games that an unreachable engine interrupts are neither lost nor recorded; they are played again once it
answers, and until then one game at a time tries. When that has gone on for too long the run stops, with an error that
names the engine; what was interrupted is still to be played when the run goes on.
"""

from __future__ import annotations

import copy
import logging
import time
from collections import Counter
from collections.abc import Set
from dataclasses import dataclass

from ludus.config import SamplingConfig
from ludus.errors import EngineLost, Unreachable
from ludus.inference.conversation import ChatTemplate
from ludus.inference.protocol import Completion, Engine, Request, Sampling, ShowsProgress
from ludus.inference.thinking import ThinkingBudget
from ludus.lm.chat import ChatFormat
from ludus.runtime import Pulse

log = logging.getLogger(__name__)

ANSWER_S = 1800.0
"""Limit of one reply."""


class Interrupted(Exception):
    """The engine could not be reached: the game is to be played again from its beginning."""


@dataclass(slots=True)
class _Reach:
    """Whether the engine can be reached, for all that sample from it."""

    trouble: str = ""
    lost_since: float | None = None


@dataclass(slots=True)
class Said:
    """What the policy has said in one episode, in replies that are finished."""

    replies: int = 0
    tokens: int = 0
    cut: int = 0
    """Replies that reached their length before their end."""
    closed: int = 0
    """Replies whose thoughts were closed by their budget."""


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
        self._patience_s = patience_s
        self._reach = _Reach()
        self._said: dict[str, Said] = {}
        """By episode."""
        self._budget: ThinkingBudget | None = None

    def speaking(self, template: ChatFormat, sampling: SamplingConfig) -> PolicySampler:
        """The same engine, for conversations in another form and with another budget for thoughts."""
        other = copy.copy(self)
        other.template = template
        budget = sampling.thinking_budget
        other._budget = None if budget is None else ThinkingBudget(tokens=budget, chat=template)
        return other

    @property
    def trouble(self) -> str:
        """Why the engine cannot be reached now; empty while it can."""
        return self._reach.trouble

    async def sample(self, request: Request) -> Completion:
        """Write one reply.

        Raises:
            Interrupted: the engine is out of reach; the task is to begin again.
            EngineLost: it has been for too long.
            PolicyError, TimeoutExceeded: as the engine raises them.
        """
        if self._budget is None:
            completion = await self._generate(request)
        else:
            completion = await self._budget.sample(request, self._generate)
        said = self._said.setdefault(_episode(request.session), Said())
        said.replies += 1
        said.cut += completion.finish == "length"
        said.closed += completion.sampled is not None and not completion.sampled.all()
        return completion

    async def _generate(self, request: Request) -> Completion:
        """One completion of the engine."""
        try:
            completion = await self.engine.generate(request)
        except Unreachable as error:
            raise self._interruption(error) from error
        reach = self._reach
        if reach.lost_since is not None:
            log.warning("the engine answers again, after %.0f s", time.monotonic() - reach.lost_since)
            reach.lost_since, reach.trouble = None, ""
        self.pulse.tick()
        self._said.setdefault(_episode(request.session), Said()).tokens += len(completion.tokens)
        return completion

    def went_on(self, session: str) -> None:
        """The latest completion of a session went on with the one before, which was cut to be looked at: one reply."""
        if (said := self._said.get(_episode(session))) is not None:
            said.replies -= 1
            said.cut -= 1

    def sampled(self) -> Counter[str]:
        """Tokens that were sampled so far in every episode that is not over, by its id; of a reply that is being
        written only where the engine tells."""
        totals = Counter({episode: said.tokens for episode, said in self._said.items()})
        for session, tokens in self.engine.writing() if isinstance(self.engine, ShowsProgress) else ():
            totals[_episode(session)] += tokens
        return totals

    def end_episode(self, episode: str) -> Said:
        """The episode is over, or begins again; returns what was said in it."""
        return self._said.pop(episode, Said())

    def _interruption(self, error: Unreachable) -> Interrupted | EngineLost:
        """What to raise in a game that cannot reach the engine, again or for the first time."""
        now, reach = time.monotonic(), self._reach
        if reach.lost_since is None:
            log.warning("%s", error)
            reach.lost_since = now
        reach.trouble = str(error)
        if now - reach.lost_since < self._patience_s:
            return Interrupted(reach.trouble)
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
        min_p=config.min_p,
        repetition_penalty=config.repetition_penalty,
        stop=config.stop,
        stop_tokens=frozenset() if config.ignore_end else frozenset(stop_tokens),
    )
