"""The engine inside the process: PyTorch, continuous batching, prefixes computed once.

Computing happens in the event loop, one step at a time, and between steps everyone else gets their turn. Nothing but
`generate`, `end_session` and `close` is called while games run.

Invariant: a request that was accepted ends in a completion or an error, and gives back all that it held.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

import numpy as np
import torch

from ludus.config import LoraConfig
from ludus.errors import PolicyError, TimeoutExceeded
from ludus.inference.local.admission import Admission, Job
from ludus.inference.local.block_pool import BlockPool, Sessions
from ludus.inference.local.extras import Extras
from ludus.inference.local.passes import Slots
from ludus.inference.local.scheduler import Scheduler
from ludus.inference.local.versions import Version, Versions
from ludus.inference.protocol import Completion, EngineCounters, Request, check_request
from ludus.lm.architectures import NotCovered
from ludus.lm.chat import decode_tokens
from ludus.lm.decoder import TokenModel
from ludus.lm.decoder_model import DecoderModel
from ludus.lm.language_models import LanguageModel
from ludus.lm.transformers_model import TransformersModel
from ludus.lm.weights import Tensors, read_critic
from ludus.policies import PolicyStore
from ludus.records import PolicyRef

logger = logging.getLogger(__name__)


class LocalEngine:
    """An `Engine` over one base model and any number of its versions."""

    def __init__(
        self,
        language_model: LanguageModel,
        *,
        store: PolicyStore | None = None,
        lora: LoraConfig | None = None,
        max_batch: int = 64,
        prefill_tokens: int = 512,
        max_versions: int | None = None,
        merge_adapters: bool = False,
        cache_bytes: int = 1 << 30,
        reuse: bool = True,
    ) -> None:
        """
        Args:
            language_model: the base.
            store: where versions are read from when they are first asked for.
            lora: how versions' adapters were made; None if versions are whole models.
            max_batch: completions written at the same time.
            prefill_tokens: prompt tokens computed in one step, at most.
            max_versions: versions kept that no request is using; by default many adapters, or a few whole models.
            merge_adapters: whether each version has its own copy of the weights with its adapter merged into them.
                That is faster for one version at a time; else versions share the base and are computed together.
            cache_bytes: memory of keys and values up to which what was computed is kept for later.
            reuse: whether what was computed for one request is used for others.
        """
        self.counters = EngineCounters()
        self._base = language_model
        self._vocabulary = int(language_model.model.config.get_text_config().vocab_size)
        self._model = _choose_model(language_model, lora, merge_adapters)
        self.is_repeatable = self._model.is_exact
        cache = self._model.cache
        self._pool = BlockPool(cache, most=max(cache.blocks, cache_bytes // cache.block_bytes))
        self._sessions = Sessions(self._pool)
        self._versions = Versions(
            self._make_version,
            store=store,
            most=self._model.spare_versions if max_versions is None else max_versions,
            forget=self._forget,
        )
        self._scheduler = Scheduler(
            slots=Slots(max_batch, context=language_model.context),
            admission=Admission(cache, self._pool, self._sessions, reuse=reuse),
            versions=self._versions,
            model=self._model,
            prefill_tokens=prefill_tokens,
            counters=self.counters,
            extras=Extras(max_batch, self._vocabulary, partial(decode_tokens, language_model.tokenizer)),
        )
        self._running: asyncio.Task[None] | None = None
        self._is_closed = False

    def add_version(self, policy: PolicyRef, tensors: Tensors) -> None:
        """Have a version that is in no store; no tensors are the base model itself. One of the same name is given up,
        with all that was computed with it."""
        self._versions.add(policy, tensors)

    async def generate(self, request: Request) -> Completion:
        """Write one completion. See `Engine.generate`."""
        with self.counters.counting():
            if reason := self._why_not(request):
                raise PolicyError(f"{request.policy} cannot answer: {reason}")
            return await self._run(request)

    def end_session(self, session: str) -> None:
        """Give up what is kept for a session."""
        self._sessions.drop(session)

    def writing(self) -> list[tuple[str, int]]:
        """The session of every request that is being written, and tokens so far."""
        return self._scheduler.writing()

    def load(self) -> tuple[int, int]:
        """Requests that run, and requests that wait."""
        return self._scheduler.load()

    async def close(self) -> None:
        """Fail requests in flight and stop."""
        self._is_closed = True
        for job in self._scheduler.jobs():
            self._scheduler.cancel(job)
            job.done(PolicyError("the engine was closed"))
        if self._running is not None:
            await self._running

    def _why_not(self, request: Request) -> str:
        if self._is_closed:
            return "the engine is closed"
        if reason := check_request(request, context=self._base.context):
            return reason
        for token in (min(request.prompt), max(request.prompt)):
            if not 0 <= token < self._vocabulary:
                return f"the prompt has a token {token}, and the model knows 0 to {self._vocabulary - 1}"
        return ""

    async def _run(self, request: Request) -> Completion:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Completion] = loop.create_future()

        def tell(result: Completion | Exception) -> None:
            if future.done():
                return
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)

        late = TimeoutExceeded(f"{request.policy} did not answer within {request.deadline_s:g} s")
        timer = loop.call_later(request.deadline_s, tell, late)
        job = Job(request=request, prompt=np.asarray(request.prompt, np.int32), done=tell)
        self._scheduler.submit(job)
        if self._running is None or self._running.done():
            self._running = loop.create_task(self._work())
        try:
            return await future
        finally:
            timer.cancel()
            self._scheduler.cancel(job)

    async def _work(self) -> None:
        """Step while there is work. What goes wrong here concerns every request."""
        try:
            while not self._scheduler.is_idle:
                with torch.inference_mode():
                    self._scheduler.step()
                await asyncio.sleep(0)
        except Exception as error:
            for job in self._scheduler.jobs():
                self._scheduler.cancel(job)
                job.done(error)

    def _make_version(self, policy: PolicyRef, tensors: Tensors) -> Version:
        weights = self._model.prepare(tensors)
        critic = read_critic(tensors, width=self._base.width, device=self._base.model.device)
        return Version(policy=policy, weights=weights, group=self._model.group(weights), critic=critic)

    def _forget(self, policy: PolicyRef) -> None:
        self._sessions.drop_policy(policy)
        self._pool.forget(policy)


def _choose_model(base: LanguageModel, lora: LoraConfig | None, merge: bool) -> TokenModel:
    """The decoder of `ludus.lm` where it covers the model."""
    try:
        return DecoderModel(base.model, context=base.context, lora=lora, merge=merge)
    except NotCovered as reason:
        logger.warning("%s runs on its own forward, which is slower: %s", base.path, reason)
        return TransformersModel(base.model, context=base.context, lora=lora)
