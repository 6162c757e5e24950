"""A vLLM server as an engine: token ids in and out over its API, a policy's versions as adapters or as whole models.

The server is a process of its own: the user's, or one that the run starts (`server.py`), and it must see the run's
folder under the same path. For adapters it has been started with `--enable-lora --max-lora-rank R` and, in its
environment, `VLLM_ALLOW_RUNTIME_LORA_UPDATING=True`; for whole models as `whole.NEEDS` says. With a temperature other
than 1 it also needs `--logprobs-mode processed_logprobs`: otherwise it gives log-probabilities as if it were 1. In that
mode they come after top-p and top-k, so a reply that was drawn with those is scored in a second request.

Covered: adapters, whole models, log-probabilities of what was sampled, seeds, stop tokens, deadlines, a server that is
restarted. Not covered: a critic's values (zeros; the trainer computes them), equal bits whatever else is in flight.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from ludus.config.sections.engines import VllmEngineConfig
from ludus.errors import PolicyError, TimeoutExceeded
from ludus.inference.endpoint import Endpoint, EndpointRefused
from ludus.inference.protocol import Completion, EngineCounters, Request, check_request
from ludus.inference.vllm.adapters import VllmAdapters
from ludus.inference.vllm.comparison import Comparison
from ludus.inference.vllm.load import ServerLoad
from ludus.inference.vllm.shared_call import SharedCall
from ludus.inference.vllm.whole import VllmWhole, WholeModels
from ludus.inference.vllm.window import Window
from ludus.inference.vllm.wire import (
    ServerFacts,
    as_completion,
    cached_tokens,
    completion_body,
    gap_of_probe,
    generate_body,
    probe_body,
    read_completion,
    read_scores,
    read_versions,
    scoring_body,
)
from ludus.policies import PolicyStore
from ludus.records import PolicyRef, PolicyVersion

KEY_VARIABLE = "VLLM_API_KEY"
"""Environment variable with the server's key, where it wants one."""
LOADS = 3
"""Times that a version is loaded for one request, at most, when the server keeps losing it."""
MEETING_S = 600.0
"""Limit for getting to know a server."""
COLD, WARM = 0.25, 1.0
"""Temperatures at which a server is probed for what its log-probabilities mean."""
GENERATE = "/inference/v1/generate"


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
        counters: EngineCounters | None = None,
        whole: WholeModels | None = None,
    ) -> None:
        """`context` bounds conversations besides the server's own limit. Without a store, every policy is the base.

        `counters` are those that several engines share, where there are some. With `whole`, versions are whole models.
        """
        self.counters = counters or EngineCounters()
        self._url, self._base = config.url or "", config.model
        self._context = context
        key_variable = KEY_VARIABLE if os.environ.get(KEY_VARIABLE) else None
        self._endpoint = Endpoint(
            self._url,
            counters=self.counters,
            key_variable=key_variable,
            retries=retries,
            backoff_s=backoff_s,
            max_in_flight=2 * config.most_in_flight,
        )
        root = self._url.removesuffix("/").removesuffix("/v1")
        self._root = Endpoint(
            root,
            counters=self.counters,
            key_variable=key_variable,
            retries=retries,
            backoff_s=backoff_s,
            max_in_flight=2 * config.most_in_flight,
        )
        self._load, self._window = ServerLoad(root), Window(config.most_in_flight)
        comparison = Comparison(self._endpoint, most=config.most_mismatch)
        self._versions: VllmAdapters | VllmWhole | None = None
        if store is not None and whole is not None:
            self._versions = VllmWhole(self._root, store, served=self._base, options=whole, comparison=comparison)
        elif store is not None:
            self._versions = VllmAdapters(self._endpoint, store, most=most_adapters, comparison=comparison)
        self._facts: ServerFacts | None = None
        self._met_after = 0
        self._meeting: SharedCall[ServerFacts] = SharedCall()

    async def generate(self, request: Request) -> Completion:
        """Write one completion; see `Engine.generate`."""
        self._load.refresh()
        self._window.follow(self._load)
        with self.counters.counting():
            ends = time.monotonic() + request.deadline_s
            try:
                async with asyncio.timeout(request.deadline_s) as waiting, self._window.place():
                    waiting.reschedule(None)
                    completion, answer = await self._generate(request, ends)
            except TimeoutError:
                raise TimeoutExceeded(f"{self._url}: no place at the server before the deadline") from None
        self.counters.prompt_tokens += len(request.prompt)
        self.counters.sampled_tokens += len(completion.tokens)
        self.counters.reused_tokens += cached_tokens(answer)
        return completion

    def load(self) -> tuple[int, int]:
        """Requests that run at the server, and that wait there, whoever sent them."""
        return self._load.running, self._load.waiting

    def end_session(self, session: str) -> None:
        """The server finds prefixes that it knows by itself; nothing is kept here."""

    async def close(self) -> None:
        """Let the connections go. Requests in flight fail. Adapters stay at the server, for whoever comes next."""
        for part in (self._load, self._root, self._endpoint):
            await part.close()

    # -- one request -----------------------------------------------------------------------------------------------

    async def _generate(self, request: Request, ends: float) -> tuple[Completion, dict[str, Any]]:
        self._refuse(check_request(request, context=self._context))
        for _ in range(LOADS):
            if not isinstance(self._versions, VllmWhole):
                await self._known_facts(request, ends)
            async with self._model(request.policy, ends) as model:
                facts = await self._known_facts(request, ends)  # of a whole model only now: it may have had no weights
                try:
                    return await self._write(request, model, facts, ends)
                except EndpointRefused as refused:
                    if refused.status != 404 or self._versions is None:
                        raise
                    self._versions.forget(request.policy, model)
                except _LostWeights:
                    assert self._versions is not None  # noqa: S101 - only whole models are lost so
                    self._versions.forget(request.policy, model)
        raise PolicyError(f"{self._url}: the server lost {request.policy} {LOADS} times after loading it")

    async def _write(
        self, request: Request, model: str, facts: ServerFacts, ends: float
    ) -> tuple[Completion, dict[str, Any]]:
        """What a server that has the version writes."""
        told: dict[str, Any] = {}
        if isinstance(self._versions, VllmWhole):
            told = await self._root.post(GENERATE, generate_body(request, model), deadline_s=_left(ends))
            answer = as_completion(told)
        else:
            answer = await self._post(completion_body(request, model), ends)
        scores = None
        if facts.must_score(request.sampling):
            drawn = read_completion(answer, request).tokens.tolist()
            scores = read_scores(await self._post(scoring_body(request, drawn, model), ends), drawn)
        completion = read_completion(answer, request, scores)
        if isinstance(self._versions, VllmWhole):
            completion = _dated(completion, told, self._versions)
        return completion, answer

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
        return await self._endpoint.post("/completions", body, deadline_s=_left(ends))

    def _model(self, ref: PolicyRef, ends: float) -> AbstractAsyncContextManager[str]:
        return nullcontext(self._base) if self._versions is None else self._versions.lease(ref, ends=ends)

    async def _meet(self, prompt: tuple[int, ...], ends: float) -> ServerFacts:
        """Learn what the server serves and what its log-probabilities mean: once, and after every lost connection."""
        try:
            return await self._meeting.join("meeting", lambda: self._ask_for_facts(prompt), ends=ends)
        except TimeoutError:
            raise TimeoutExceeded(f"{self._url}: the server had not answered at the deadline") from None

    async def _ask_for_facts(self, prompt: tuple[int, ...]) -> ServerFacts:
        ends, breaks = time.monotonic() + MEETING_S, self._endpoint.breaks
        context = await self._served_context(ends)
        bodies = (probe_body(prompt, self._base, temperature) for temperature in (COLD, WARM))
        cold, warm = [gap_of_probe(await self._post(body, ends)) for body in bodies]
        # A temperature of 1/4 makes distances between log-probabilities four times as large, if they come after it.
        self._facts = ServerFacts(context=context, is_processed=cold > 2 * warm)
        self._met_after = breaks
        return self._facts

    async def _served_context(self, ends: float) -> int:
        listing = await self._endpoint.get("/models", deadline_s=_left(ends))
        models = [model for model in listing.get("data", []) if isinstance(model, dict)]
        for model in models:
            if model.get("id") == self._base:
                length = model.get("max_model_len")
                return length if isinstance(length, int) else self._context
        served = ", ".join(str(model.get("id")) for model in models) or "nothing"
        raise PolicyError(f"{self._url} does not serve {self._base!r}; it serves: {served}")

    def _refuse(self, problem: str) -> None:
        if problem:
            raise PolicyError(f"{self._url}: {problem}")


class _LostWeights(Exception):
    """The server has forgotten what it was given: it is another process than before."""


def _dated(completion: Completion, answer: dict[str, Any], whole: VllmWhole) -> Completion:
    """The completion with the version that wrote each of its tokens."""
    versions = []
    for label, count in read_versions(answer, len(completion.tokens)):
        version = whole.version_of(label)
        if version is None:
            raise _LostWeights(label)
        versions += [version] * count
    if len(set(versions)) == 1:
        return replace(completion, policy=PolicyRef(name=completion.policy.name, version=PolicyVersion(versions[0])))
    oldest = PolicyRef(name=completion.policy.name, version=PolicyVersion(min(versions)))
    return replace(completion, policy=oldest, versions=np.array(versions, np.int32))


def _left(ends: float) -> float:
    return max(ends - time.monotonic(), 0)
