"""A vLLM server as an engine: token ids over its OpenAI-compatible API, a policy's versions as adapters loaded there.

The server is a process of its own: the user's, or one that the run starts (`server.py`). It has been started with
`--enable-lora --max-lora-rank R` and, in its environment, `VLLM_ALLOW_RUNTIME_LORA_UPDATING=True`, and it must see the
run's folder under the same path. With a temperature other than 1 it also needs
`--logprobs-mode processed_logprobs`: otherwise it gives log-probabilities as if it were 1. In that mode they come after
top-p and top-k, so a reply that was drawn with those is scored in a second request.

Covered: adapters, log-probabilities of what was sampled, seeds, stop tokens, deadlines, a server that is restarted.
Not covered: whole models as versions (`lora: null`), a critic's values (zeros), equal bits whatever else is in flight.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from ludus.config.sections.engines import VllmEngineConfig
from ludus.errors import DamagedPolicy, PolicyError, TimeoutExceeded, Unreachable, boundary
from ludus.inference.endpoint import Endpoint, EndpointRefused
from ludus.inference.protocol import Completion, EngineCounters, Request, check_request
from ludus.inference.vllm.load import ServerLoad
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
from ludus.lm.language_shape import LanguageModelShape
from ludus.policies import PolicyStore
from ludus.records import PolicyRef

log = logging.getLogger(__name__)

T = TypeVar("T")

KEY_VARIABLE = "VLLM_API_KEY"
"""Environment variable with the server's key, where it wants one."""
LOADS = 3
"""Times that a version is loaded for one request, at most, when the server keeps losing it."""
MEETING_S = 600.0
"""Limit for getting to know a server."""
COLD, WARM = 0.25, 1.0
"""Temperatures at which a server is probed for what its log-probabilities mean."""
LOAD_S = 600.0
"""Limit for loading one adapter."""
UNLOAD_S = 30.0
"""Limit for unloading one adapter; a server that takes longer keeps it."""


class SharedCall(Generic[T]):
    """At most one piece of work for each key at a time, which several callers wait for together, in one event loop.

    Whoever asks while it is under way gets the same result or the same error: a hundred callers of a dead server learn
    of it at once rather than one after the other. A caller that stops waiting does not stop the work.
    """

    def __init__(self) -> None:
        self._running: dict[Hashable, asyncio.Task[T]] = {}

    async def join(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, T]], *, ends: float) -> T:
        """What the work for a key comes to; it is begun unless it is under way.

        Raises:
            TimeoutError: it was not done by `ends` (of `time.monotonic`).
        """
        task = self._running.get(key)
        if task is None:
            task = asyncio.ensure_future(work())
            self._running[key] = task
            task.add_done_callback(partial(self._forget, key))
        async with asyncio.timeout(ends - time.monotonic()):
            return await asyncio.shield(task)

    def _forget(self, key: Hashable, done: asyncio.Task[T]) -> None:
        del self._running[key]
        if not done.cancelled():
            done.exception()  # seen, even if nobody waits for it any more


@dataclass(slots=True, kw_only=True)
class _Adapter:
    name: str
    users: int = 0


class VllmAdapters:
    """Adapters of one store at one server: loaded when first asked for, the least recently used unloaded again.

    An adapter's name has the hash of its weights, so a name never means other weights, whoever else uses the server and
    however often it is restarted; an adapter is not unloaded while one of our requests uses it. Several processes may
    share a server: what one has loaded the others find, and what one unloads the others load again.
    """

    def __init__(self, endpoint: Endpoint, store: PolicyStore, *, most: int) -> None:
        self._endpoint = endpoint
        self._store = store
        self._most = most
        self._loaded: OrderedDict[PolicyRef, _Adapter] = OrderedDict()
        self._loads: SharedCall[None] = SharedCall()
        self._loading = asyncio.Lock()

    @asynccontextmanager
    async def lease(self, ref: PolicyRef, *, ends: float) -> AsyncIterator[str]:
        """The name under which the server has a version; it stays loaded while the context is open.

        Raises:
            PolicyError: there is no such version, or the server does not take it, or cannot be reached.
            TimeoutExceeded: it was not loaded by `ends` (of `time.monotonic`).
        """
        while (adapter := self._loaded.get(ref)) is None:
            await self._load(ref, ends)
        self._loaded.move_to_end(ref)
        adapter.users += 1
        try:
            yield adapter.name
        finally:
            adapter.users -= 1

    def forget(self, ref: PolicyRef, name: str) -> None:
        """The server says that it has no such adapter: load it again when it is next asked for."""
        known = self._loaded.get(ref)
        if known is not None and known.name == name:
            del self._loaded[ref]

    async def _load(self, ref: PolicyRef, ends: float) -> None:
        try:
            await self._loads.join(ref, lambda: self._load_in_turn(ref), ends=ends)
        except TimeoutError:
            raise TimeoutExceeded(f"{ref}: the server had not loaded its adapter at the deadline") from None

    async def _load_in_turn(self, ref: PolicyRef) -> None:
        """Load one adapter while no other is being loaded or unloaded."""
        async with self._loading:
            name = await self._name(ref)
            await self._send(ref, name)
            self._loaded[ref] = _Adapter(name=name)
            await self._make_room(ref)

    async def _name(self, ref: PolicyRef) -> str:
        """Check the version as it lies on disk, whole; its name at the server."""
        with boundary(DamagedPolicy, str(ref)):
            policy = await asyncio.to_thread(self._store.load, ref, LanguageModelShape)
            if policy.shape.model.lora is None:
                raise PolicyError("a vLLM server loads adapters, not whole models; use lora, or the local engine")
        return f"{ref}-{policy.weights_hash[-16:]}"

    async def _send(self, ref: PolicyRef, name: str) -> None:
        folder = self._store.path(ref).resolve()
        body = {"lora_name": name, "lora_path": str(folder)}
        try:
            await self._endpoint.command("/load_lora_adapter", body, deadline_s=LOAD_S)
        except Unreachable:
            raise
        except EndpointRefused as refused:
            if "already been loaded" not in str(refused):
                raise PolicyError(f"vLLM does not load {ref}: {_advice(refused, str(folder))}") from refused

    async def _make_room(self, newest: PolicyRef) -> None:
        """Unload the least recently used adapters that nobody is using."""
        idle = [ref for ref, adapter in self._loaded.items() if not adapter.users and ref != newest]
        for ref in idle[: max(len(self._loaded) - self._most, 0)]:
            if self._loaded[ref].users:
                continue
            adapter = self._loaded.pop(ref)
            try:
                await self._endpoint.command("/unload_lora_adapter", {"lora_name": adapter.name}, deadline_s=UNLOAD_S)
            except EndpointRefused as refused:
                if refused.status != 404:
                    log.warning("vLLM does not unload %s: %s", adapter.name, refused)
            except (PolicyError, TimeoutExceeded) as error:
                log.warning("vLLM does not unload %s: %s", adapter.name, error)


def _advice(refused: EndpointRefused, folder: str) -> str:
    """What to do about a refusal."""
    said = str(refused)
    if refused.status in (404, 405) and "Not Found" in said:
        return "start the server with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True in its environment"
    if refused.status == 404:
        return f"it does not see the folder {folder}; server and ludus must share it ({said})"
    return said


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
    ) -> None:
        """`context` bounds conversations besides the server's own limit. Without a store, every policy is the base.

        `counters` are those that several engines share, where there are some.
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
            max_in_flight=1024,
        )
        root = Endpoint(
            self._url.removesuffix("/").removesuffix("/v1"), counters=EngineCounters(), retries=0, max_in_flight=1
        )
        self._root, self._load = root, ServerLoad(root)
        self._adapters = VllmAdapters(self._endpoint, store, most=most_adapters) if store is not None else None
        self._facts: ServerFacts | None = None
        self._met_after = 0
        self._meeting: SharedCall[ServerFacts] = SharedCall()

    async def generate(self, request: Request) -> Completion:
        """Write one completion; see `Engine.generate`."""
        self._load.refresh()
        with self.counters.counting():
            completion, answer = await self._generate(request, time.monotonic() + request.deadline_s)
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
        await self._root.close()
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
        raise PolicyError(f"{self._url}: the server lost {request.policy} {LOADS} times after loading it")

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
        return nullcontext(self._base) if self._adapters is None else self._adapters.lease(ref, ends=ends)

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
        listing = await self._endpoint.get("/models", deadline_s=max(ends - time.monotonic(), 0))
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
