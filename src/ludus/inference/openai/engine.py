"""Any OpenAI-compatible endpoint as a fixed player or a judge: chat completions behind the `Engine` protocol.

Prompts are conversations in `MessageFormat`, whose tokens are bytes. `Sampling.max_tokens` counts the endpoint's
tokens, so a reply may have more tokens here. Log-probabilities are zeros: nothing that such a player says is trained
on.

Invariants: no more than `max_cost` is spent, give or take what is in flight; a parameter that the endpoint does not
know is left out from then on, with a warning, rather than failing every game.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ludus.config import EndpointConfig
from ludus.errors import PolicyError, Unreachable
from ludus.inference.endpoint import Endpoint, EndpointRefused
from ludus.inference.openai.wire import ChatReply, MessageFormat, read_reply, read_usage
from ludus.inference.protocol import Completion, EngineCounters, Request, Sampling

log = logging.getLogger(__name__)

OMISSIBLE = ("max_tokens", "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "stop", "seed")
"""Parameters without which a reply is still one; `max_tokens` has a second name that is tried instead."""


class OpenAIEngine:
    """Asks one model at one endpoint."""

    is_repeatable = False

    def __init__(
        self, config: EndpointConfig, *, policy: str | None = None, shares: int = 1, backoff_s: float = 0.5
    ) -> None:
        """`policy` names the one policy that it speaks for, None: any; `shares` engines divide what may be spent."""
        self.counters = EngineCounters()
        self.format = MessageFormat()
        self._config = config
        self._policy = policy
        self._max_cost = None if config.max_cost is None else config.max_cost / shares
        self._left_out: set[str] = set()
        self._endpoint = Endpoint(
            config.url,
            counters=self.counters,
            key_variable=config.key_variable,
            attempt_s=config.attempt_s,
            retries=config.retries,
            backoff_s=backoff_s,
            max_in_flight=config.max_in_flight,
        )

    async def generate(self, request: Request) -> Completion:
        """Write one completion; raises as `ask` does, and PolicyError for a request that is not for it."""
        with self.counters.counting():
            reply = await self._ask(self._read(request), request.sampling, request.seed, request.deadline_s)
        tokens = reply.up_to(request.sampling.stop).as_tokens()
        cut = next((i + 1 for i, token in enumerate(tokens) if token in request.sampling.stop_tokens), len(tokens))
        return Completion(
            tokens=np.array(tokens[:cut], np.int32),
            logps=np.zeros(cut, np.float32),
            values=np.zeros(cut, np.float32),
            policy=request.policy,
            finish="stop" if cut < len(tokens) else reply.finish,
        )

    async def ask(
        self, messages: Sequence[Mapping[str, str]], sampling: Sampling, *, seed: int, deadline_s: float
    ) -> ChatReply:
        """The model's reply to a conversation.

        Raises:
            PolicyError: the endpoint is dead or refuses, there is no usable reply, or the money is spent.
            TimeoutExceeded: the deadline passed.
        """
        with self.counters.counting():
            return await self._ask(messages, sampling, seed, deadline_s)

    def end_session(self, session: str) -> None:
        """Nothing is kept between requests."""

    async def close(self) -> None:
        """Let the connections go. Requests in flight fail."""
        await self._endpoint.close()

    # -- one question ----------------------------------------------------------------------------------------------

    async def _ask(
        self, messages: Sequence[Mapping[str, str]], sampling: Sampling, seed: int, deadline_s: float
    ) -> ChatReply:
        self._check_cost()
        try:
            answer = await self._post(messages, sampling, seed, time.monotonic() + deadline_s)
        except Unreachable as error:
            # A run waits for the engine of its own policy, and for nobody else's.
            raise PolicyError(str(error)) from error
        self._charge(*read_usage(answer, messages))
        return read_reply(answer)

    def _read(self, request: Request) -> list[dict[str, str]]:
        if not request.prompt:
            raise PolicyError(f"{self._config.model} cannot answer: the prompt is empty")
        if self._policy not in (None, request.policy.name):
            raise PolicyError(f"{self._config.model} speaks for {self._policy}, not for {request.policy}")
        return self.format.messages(request.prompt)

    async def _post(
        self, messages: Sequence[Mapping[str, str]], sampling: Sampling, seed: int, ends: float
    ) -> dict[str, Any]:
        while True:
            body = self._body(messages, sampling, seed)
            try:
                return await self._endpoint.post("/chat/completions", body, deadline_s=max(ends - time.monotonic(), 0))
            except EndpointRefused as refused:
                unknown = self._unknown_parameter(refused, body)
                if unknown is None:
                    raise
                log.warning("%s does not know %r; leaving it out from now on", self._config.model, unknown)
                self._left_out.add(unknown)

    def _body(self, messages: Sequence[Mapping[str, str]], sampling: Sampling, seed: int) -> dict[str, Any]:
        wanted = {
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "seed": seed % 2**31,
            **({"top_k": sampling.top_k} if sampling.top_k else {}),
            **({"min_p": sampling.min_p} if sampling.min_p else {}),
            **({"repetition_penalty": sampling.repetition_penalty} if sampling.repetition_penalty != 1 else {}),
            **({"stop": list(sampling.stop)} if sampling.stop else {}),
        }
        if "max_tokens" in self._left_out:
            wanted["max_completion_tokens"] = sampling.max_tokens
        body = {name: value for name, value in wanted.items() if name not in self._left_out}
        return {"model": self._config.model, "messages": list(messages), **body, **self._config.options}

    @staticmethod
    def _unknown_parameter(refused: EndpointRefused, body: Mapping[str, Any]) -> str | None:
        """The parameter of ours that the endpoint does not support at all, if that is what it complains about."""
        complaint = str(refused).lower()
        is_unknown = any(word in complaint for word in ("unsupported", "not support", "unrecognized", "unknown"))
        if refused.status not in (400, 422) or not is_unknown:
            return None
        named = [name for name in OMISSIBLE if name == refused.parameter or f"'{name}'" in complaint]
        return next((name for name in named if name in body), None)

    # -- money -----------------------------------------------------------------------------------------------------

    def _check_cost(self) -> None:
        most = self._max_cost
        if most is not None and self.counters.cost >= most:
            raise PolicyError(f"{self._config.model} has cost {self.counters.cost:.4g}, and max_cost is {most:g}")

    def _charge(self, prompt: int, cached: int, completion: int) -> None:
        config, counters = self._config, self.counters
        counters.prompt_tokens += prompt
        counters.reused_tokens += cached
        counters.sampled_tokens += completion
        spent = prompt * config.prompt_price + completion * config.completion_price
        counters.cost += spent / 1_000_000
