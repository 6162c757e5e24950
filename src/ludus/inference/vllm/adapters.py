"""Which adapters a vLLM server holds for us: loaded when a version is first asked for, the least used unloaded again.

Invariants: an adapter's name has the hash of its weights, so a name never means other weights, whoever else uses the
server and however often it is restarted; an adapter is not unloaded while one of our requests uses it. Several
processes may share a server: what one has loaded the others find, and what one unloads the others load again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from ludus.errors import PolicyError, StorageError, TimeoutExceeded, Unreachable, boundary
from ludus.inference.endpoint import Endpoint, EndpointRefused
from ludus.lm.language_shape import LanguageModelShape
from ludus.policies import PolicyStore
from ludus.records import PolicyRef

log = logging.getLogger(__name__)

T = TypeVar("T")

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
    """Loads and unloads adapters of one store at one server, from one event loop."""

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
        with boundary(PolicyError, str(ref)):
            policy = await asyncio.to_thread(self._store.load, ref, LanguageModelShape)
            if policy.shape.model.lora is None:
                raise StorageError("a vLLM server loads adapters, not whole models; use lora, or the local engine")
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
