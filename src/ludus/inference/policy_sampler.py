"""The way from a conversation to the policy's engine: what happens when the engine is out of reach included."""

from __future__ import annotations

from collections.abc import Set

from ludus.config import SamplingConfig
from ludus.errors import Unreachable
from ludus.inference.conversation import ChatTemplate
from ludus.inference.outage import Outage
from ludus.inference.protocol import Completion, Engine, Request, Sampling
from ludus.runtime import Pulse

ANSWER_S = 600.0
"""Limit of one reply."""


class PolicySampler:
    """Samples replies from one engine, for any number of conversations at once."""

    def __init__(
        self, engine: Engine, template: ChatTemplate, *, patience_s: float = 0.0, pulse: Pulse | None = None
    ) -> None:
        """`patience_s`: how long the engine may be out of reach."""
        self.engine = engine
        self.template = template
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
