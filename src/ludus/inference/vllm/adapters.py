"""Adapters at a vLLM server: a policy's versions, loaded by path."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from ludus.errors import DamagedPolicy, PolicyError, TimeoutExceeded, Unreachable, boundary
from ludus.inference.endpoint import Endpoint, EndpointRefused
from ludus.inference.vllm.comparison import Comparison
from ludus.inference.vllm.shared_call import SharedCall
from ludus.lm.language_shape import LanguageModelShape
from ludus.policies import PolicyStore
from ludus.records import PolicyRef

log = logging.getLogger(__name__)

LOAD_S = 600.0
"""Limit for loading one adapter."""
UNLOAD_S = 30.0
"""Limit for unloading one adapter; a server that takes longer keeps it."""


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

    def __init__(self, endpoint: Endpoint, store: PolicyStore, *, most: int, comparison: Comparison) -> None:
        self._comparison = comparison
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
            await self._comparison.check(ref, self._store.path(ref), model=name)
            self._loaded[ref] = _Adapter(name=name)
            await self._make_room(ref)

    async def _name(self, ref: PolicyRef) -> str:
        """Check the version as it lies on disk, whole; its name at the server."""
        with boundary(DamagedPolicy, str(ref)):
            policy = await asyncio.to_thread(self._store.load, ref, LanguageModelShape)
            if policy.shape.model.lora is None:
                raise PolicyError(f"{ref} is a whole model, and this server was asked for adapters")
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
