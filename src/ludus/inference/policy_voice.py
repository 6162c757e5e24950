"""The policy's own voice: what its engine is asked with, and what happens when the engine is out of reach."""

from __future__ import annotations

from collections.abc import Set

from ludus.config import SamplingConfig
from ludus.errors import Unreachable
from ludus.inference.outage import Outage
from ludus.inference.protocol import Completion, Engine, Request, Sampling
from ludus.runtime import Pulse

ANSWER_S = 600.0
"""Limit of one reply."""


class PolicyVoice:
    """Asks one engine, for any number of conversations at once."""

    def __init__(
        self, engine: Engine, sampling: SamplingConfig, *, stop_tokens: Set[int], outage: Outage, pulse: Pulse
    ) -> None:
        self.engine = engine
        self.sampling = make_sampling(sampling, stop_tokens, greedy=False)
        self.greedy = make_sampling(sampling, stop_tokens, greedy=True)
        """The same for seats that are to say the likeliest."""
        self._outage = outage
        self._pulse = pulse

    async def ask(self, request: Request) -> Completion:
        """Write one completion.

        Raises:
            Interrupted: the engine is out of reach; the task is to begin again.
            EngineLost: it has been for too long.
            PolicyError, TimeoutExceeded: as the engine raises them.
        """
        try:
            completion = await self.engine.generate(request)
        except Unreachable as error:
            raise self._outage.begin(error) from error
        self._outage.end()
        self._pulse.tick()
        return completion


def make_sampling(sampling: SamplingConfig, stop_tokens: Set[int], *, greedy: bool) -> Sampling:
    """How the policy's tokens are drawn."""
    return Sampling(
        max_tokens=sampling.max_tokens,
        temperature=0.0 if greedy else sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        stop_tokens=frozenset() if sampling.ignore_end else frozenset(stop_tokens),
    )
