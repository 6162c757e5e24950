"""A vLLM server as an engine: token ids over its OpenAI-compatible API, a policy's versions as adapters loaded there.

The server is somebody else's process. It is started with `--enable-lora --max-lora-rank R` and, in its environment,
`VLLM_ALLOW_RUNTIME_LORA_UPDATING=True`, and it must see the run's folder under the same path. With a temperature other
than 1 it also needs `--logprobs-mode processed_logprobs`: otherwise it gives log-probabilities as if it were 1. In that
mode they come after top-p and top-k, so a reply that was drawn with those is scored in a second request.

Covered: adapters, log-probabilities of what was sampled, seeds, stop tokens, deadlines, a server that is restarted.
Not covered: whole models as versions (`lora: null`), a critic's values (zeros), equal bits whatever else is in flight.
"""

from __future__ import annotations

import os
import time
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from ludus.config.sections.explore import VllmEngineConfig
from ludus.errors import PolicyError, TimeoutExceeded
from ludus.inference.endpoint import Endpoint, EndpointRefused
from ludus.inference.protocol import Completion, EngineCounters, Request, check_request
from ludus.inference.vllm.adapters import SharedCall, VllmAdapters
from ludus.inference.vllm.wire import (
    ServerFacts,
    cached_tokens,
    completion_body,
    gap_of_probe,
    probe_body,
    read_completion,
    read_scores,
    scoring_body,
)
from ludus.policies import PolicyStore
from ludus.records import PolicyRef

KEY_VARIABLE = "VLLM_API_KEY"
"""Environment variable with the server's key, where it wants one."""
LOADS = 3
"""Times that a version is loaded for one request, at most, when the server keeps losing it."""
MEETING_S = 600.0
"""Limit for getting to know a server."""
COLD, WARM = 0.25, 1.0
"""Temperatures at which a server is probed for what its log-probabilities mean."""


class VllmEngine:
    """Drives one vLLM server from one event loop."""

    is_repeatable = False

    def __init__(
        self,
        config: VllmEngineConfig,
        *,
        store: PolicyStore | None,
        context: int,
        most_adapters: int = 8,
        retries: int = 4,
        backoff_s: float = 0.5,
    ) -> None:
        """`context` bounds conversations besides the server's own limit. Without a store, every policy is the base."""
        self.counters = EngineCounters()
        self._config = config
        self._context = context
        key_variable = KEY_VARIABLE if os.environ.get(KEY_VARIABLE) else None
        self._endpoint = Endpoint(
            config.url,
            counters=self.counters,
            key_variable=key_variable,
            retries=retries,
            backoff_s=backoff_s,
            max_in_flight=1024,
        )
        self._adapters = VllmAdapters(self._endpoint, store, most=most_adapters) if store is not None else None
        self._facts: ServerFacts | None = None
        self._met_after = 0
        self._meeting: SharedCall[ServerFacts] = SharedCall()

    async def generate(self, request: Request) -> Completion:
        """Write one completion; see `Engine.generate`."""
        with self.counters.counting():
            completion, answer = await self._generate(request, time.monotonic() + request.deadline_s)
        self.counters.prompt_tokens += len(request.prompt)
        self.counters.sampled_tokens += len(completion.tokens)
        self.counters.reused_tokens += cached_tokens(answer)
        return completion

    def end_session(self, session: str) -> None:
        """The server finds prefixes that it knows by itself; nothing is kept here."""

    async def close(self) -> None:
        """Let the connections go. Requests in flight fail. Adapters stay at the server, for whoever comes next."""
        await self._endpoint.close()

    # -- one request -----------------------------------------------------------------------------------------------

    async def _generate(self, request: Request, ends: float) -> tuple[Completion, dict[str, Any]]:
        self._refuse(check_request(request, context=self._context))
        for _ in range(LOADS):
            facts = await self._known_facts(request, ends)
            async with self._model(request.policy, ends) as model:
                try:
                    answer = await self._post(completion_body(request, model), ends)
                    scores = None
                    if facts.must_score(request.sampling):
                        drawn = read_completion(answer, request).tokens.tolist()
                        scores = read_scores(await self._post(scoring_body(request, drawn, model), ends), drawn)
                    return read_completion(answer, request, scores), answer
                except EndpointRefused as refused:
                    if refused.status != 404 or self._adapters is None:
                        raise
                    self._adapters.forget(request.policy, model)
        raise PolicyError(f"{self._config.url}: the server lost {request.policy} {LOADS} times after loading it")

    async def _known_facts(self, request: Request, ends: float) -> ServerFacts:
        """What is known of the server, if the request can be served by it."""
        facts = self._facts
        if facts is None or self._met_after != self._endpoint.breaks:
            facts = await self._meet(request.prompt, ends)
        self._refuse(facts.problem_with(request.sampling))
        # Scoring takes the whole and one token more.
        self._refuse(check_request(request, context=facts.context - facts.must_score(request.sampling)))
        return facts

    async def _post(self, body: dict[str, Any], ends: float) -> dict[str, Any]:
        return await self._endpoint.post("/completions", body, deadline_s=max(ends - time.monotonic(), 0))

    def _model(self, ref: PolicyRef, ends: float) -> AbstractAsyncContextManager[str]:
        return nullcontext(self._config.model) if self._adapters is None else self._adapters.lease(ref, ends=ends)

    async def _meet(self, prompt: tuple[int, ...], ends: float) -> ServerFacts:
        """Learn what the server serves and what its log-probabilities mean: once, and after every lost connection."""
        try:
            return await self._meeting.join("meeting", lambda: self._ask_for_facts(prompt), ends=ends)
        except TimeoutError:
            raise TimeoutExceeded(f"{self._config.url}: the server had not answered at the deadline") from None

    async def _ask_for_facts(self, prompt: tuple[int, ...]) -> ServerFacts:
        ends, breaks = time.monotonic() + MEETING_S, self._endpoint.breaks
        context = await self._served_context(ends)
        bodies = (probe_body(prompt, self._config.model, temperature) for temperature in (COLD, WARM))
        cold, warm = [gap_of_probe(await self._post(body, ends)) for body in bodies]
        # A temperature of 1/4 makes distances between log-probabilities four times as large, if they come after it.
        self._facts = ServerFacts(context=context, is_processed=cold > 2 * warm)
        self._met_after = breaks
        return self._facts

    async def _served_context(self, ends: float) -> int:
        listing = await self._endpoint.get("/models", deadline_s=max(ends - time.monotonic(), 0))
        models = [model for model in listing.get("data", []) if isinstance(model, dict)]
        for model in models:
            if model.get("id") == self._config.model:
                length = model.get("max_model_len")
                return length if isinstance(length, int) else self._context
        served = ", ".join(str(model.get("id")) for model in models) or "nothing"
        raise PolicyError(f"{self._config.url} does not serve {self._config.model!r}; it serves: {served}")

    def _refuse(self, problem: str) -> None:
        if problem:
            raise PolicyError(f"{self._config.url}: {problem}")
