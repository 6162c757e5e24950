"""A whole model at a vLLM server: one version at a time, given by path, each the next one's replacement.

A request for a version is served by that version or a newer one; the answer says which of them wrote each token. Before
anything is written with new weights the server lets its replies end (`drain`) or stops between two tokens
(`in_flight`); then it reads the folder, forgets prefixes of the old weights, and is compared with the trainer.

Invariants: of several processes that share a server one at a time changes its weights (they share the run's folder, and
a lock in it); a server never goes back to an older version of the same run, but where `is_exact` asks for that.
Not covered: servers on another machine than the run's folder, two runs at one server, weights over NCCL.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import re
import shutil
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import numpy as np

from ludus.errors import DamagedPolicy, PolicyError, StorageError, TimeoutExceeded, WrongWeights, boundary
from ludus.inference.endpoint import Endpoint, EndpointRefused
from ludus.inference.vllm.comparison import Comparison
from ludus.inference.vllm.shared_call import SharedCall
from ludus.lm.language_shape import LanguageModelShape
from ludus.lm.probe import Probe, read_probe
from ludus.lm.untied_folder import tied_embedding, write_untied_folder
from ludus.policies import PolicyStore
from ludus.records import PolicyRef

log = logging.getLogger(__name__)

CHANGE_S = 3600.0
"""Limit for one change of weights, the end of replies in flight included."""
ASK_S = 60.0
ALIKE = 1e-2
"""Nats between the likeliest and the unlikeliest token of a head that is all zeros, at most."""
RELEASE = (0, 32)
"""The oldest vLLM that takes whole models as it is done here."""
NOTHING = "none"
"""The label of weights that are nobody's version."""
_LABEL = re.compile(r"^([a-z][a-z0-9_-]{0,31})@(\d{1,9})-([0-9a-f]{16})$")
NEEDS = (
    "VLLM_SERVER_DEV_MODE=1 in its environment, --enable-scale-out, and a folder that `ludus model untie` has written"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeModels:
    """How servers get whole models."""

    update: Literal["drain", "in_flight"]
    is_exact: bool = False
    """Whether the very version is asked for, and no newer one will do: to measure versions one after the other."""


class VllmWhole:
    """The whole model of one server. `root` is the server itself, without `/v1`."""

    def __init__(
        self, root: Endpoint, store: PolicyStore, *, served: str, options: WholeModels, comparison: Comparison
    ) -> None:
        self._root, self._store, self._served, self._options = root, store, served, options
        self._comparison = comparison
        self._has: tuple[PolicyRef, str] | None = None
        """The version that the server had when it was last asked, with its label."""
        self._breaks = -1
        self._syncs: SharedCall[None] = SharedCall()
        place = urlsplit(root.url)
        self._room = store.directory.parent / "serving" / f"{place.hostname}-{place.port or 80}"

    @asynccontextmanager
    async def lease(self, ref: PolicyRef, *, ends: float) -> AsyncIterator[str]:
        """The name of the model, once the server has this version or a newer one.

        Raises:
            PolicyError: there is no such version, or the server cannot be reached.
            TimeoutExceeded: it did not have it by `ends` (of `time.monotonic`).
            WrongWeights: it does not take it, or has other weights afterwards.
        """
        while not self._is_there(ref):
            try:
                await self._syncs.join(ref, lambda: self._bring(ref), ends=ends)
            except TimeoutError:
                raise TimeoutExceeded(f"{ref}: the server did not have its weights at the deadline") from None
        yield self._served

    def forget(self, ref: PolicyRef, name: str) -> None:
        """The server may be another one: look again."""
        self._has = None

    def version_of(self, label: str) -> int | None:
        """The version of ours that a server calls by this label; None if it is none."""
        known = _LABEL.match(label)
        return None if known is None else int(known[2])

    def _is_there(self, ref: PolicyRef) -> bool:
        if self._has is None or self._breaks != self._root.breaks:
            return False
        return self._is_enough(self._has[0], ref)

    def _is_enough(self, has: PolicyRef, wanted: PolicyRef) -> bool:
        if has.name != wanted.name or self._options.is_exact:
            return has == wanted
        return has.version >= wanted.version

    async def _bring(self, ref: PolicyRef) -> None:
        """See that the server has a version: it may have it already, from another process."""
        breaks = self._root.breaks
        with boundary(DamagedPolicy, str(ref)):
            folder = await asyncio.to_thread(self._store.bring, ref)
            if not isinstance(shape := self._store.shape(ref), LanguageModelShape) or shape.model.lora is not None:
                raise PolicyError(f"{ref} is not a whole model, and this server has one")
        label = f"{ref}-{self._store.weights_hash(ref)[-16:]}"
        async with self._locked():
            found = await self._find()
            if found is None or not self._is_enough(found[0], ref):
                await self._change(ref, folder, label, is_new=found is None)
                found = ref, label
        self._has, self._breaks = found, breaks

    async def _find(self) -> tuple[PolicyRef, str] | None:
        """The version of ours that the server has; a server that somebody left paused goes on."""
        if (await self._ask("/is_paused")).get("is_paused"):
            await self._tell("/resume")
        label = str((await self._ask("/weight_info")).get("weight_version"))
        known = _LABEL.match(label)
        if known is None:
            await self._check_release()
            return None
        has = PolicyRef.parse(f"{known[1]}@{known[2]}")
        try:
            await asyncio.to_thread(self._store.files.fetch, self._store.path(has))
            digest = self._store.weights_hash(has)
        except (StorageError, OSError):
            return None
        return (has, label) if digest.endswith(known[3]) else None

    async def _check_release(self) -> None:
        """See that the server is one whose routes are known."""
        release = str((await self._ask("/version")).get("version"))
        numbers = tuple(int(part) for part in re.findall(r"\d+", release)[:2])
        if numbers < RELEASE:
            raise WrongWeights(
                f"{self._root.url} is vLLM {release}; whole models need {RELEASE[0]}.{RELEASE[1]} or newer"
            )

    async def _change(self, ref: PolicyRef, folder: Path, label: str, *, is_new: bool) -> None:
        began = time.monotonic()
        try:
            probe = read_probe(folder)
            if is_new and probe is not None and await asyncio.to_thread(tied_embedding, folder) is not None:
                await self._silence(probe, folder, label)
            served = await asyncio.to_thread(self._write, folder, label)
        except StorageError as error:
            raise DamagedPolicy(f"{ref}: {error}") from error
        await self._replace(served, label)
        await self._comparison.check(ref, folder, model=self._served)
        took, apart = time.monotonic() - began, self._comparison.mismatch
        log.info("%s has %s after %.1f s; on the probe %.2g nats from the trainer", self._root.url, ref, took, apart)

    async def _silence(self, probe: Probe, folder: Path, label: str) -> None:
        """See that the server takes an output head: with one of zeros, every token must be equally likely."""
        silent = await asyncio.to_thread(self._write, folder, f"{label}-silent", silent=True)
        await self._replace(silent, NOTHING)
        scores = await self._comparison.scores(probe, model=self._served)
        if not np.ptp(scores) < ALIKE:
            raise WrongWeights(
                f"{self._root.url} keeps its old output head when it is given new weights, as vLLM does where the head "
                f"is tied to the embeddings; start it with {NEEDS}"
            )

    def _write(self, folder: Path, name: str, *, silent: bool = False) -> Path:
        """The folder that the server is to read; the one before goes."""
        for old in self._room.glob("*"):
            shutil.rmtree(old, ignore_errors=True)
        return write_untied_folder(folder, self._room / name, silent=silent)

    async def _replace(self, folder: Path, label: str) -> None:
        """Give the server the weights in a folder, under a new label.

        Pausing clears its cache, so that also what is being written has its prefix computed again: keys and values that
        it has are old weights'.
        """
        await self._tell(f"/pause?mode={'wait' if self._options.update == 'drain' else 'keep'}")
        try:
            order = {"method": "reload_weights", "kwargs": {"weights_path": str(folder.resolve())}}
            await self._tell("/update_weight_version", {"new_version": NOTHING})  # should it fail half-way
            await self._tell("/collective_rpc", order)
            await self._tell("/update_weight_version", {"new_version": label})
        finally:
            await self._tell("/resume")

    async def _tell(self, path: str, body: Mapping[str, object] = {}) -> None:
        try:
            await self._root.command(path, body, deadline_s=CHANGE_S)
        except EndpointRefused as refused:
            raise self._advice(refused) from refused

    async def _ask(self, path: str) -> dict[str, object]:
        try:
            return await self._root.get(path, deadline_s=ASK_S)
        except EndpointRefused as refused:
            raise self._advice(refused) from refused

    def _advice(self, refused: EndpointRefused) -> Exception:
        if refused.status in (404, 405):
            return WrongWeights(f"{self._root.url} takes no whole models; it needs vLLM 0.32, {NEEDS}")
        if refused.status >= 500 and "reload_weights" in str(refused):
            return WrongWeights(f"{self._root.url} does not load the weights: {refused}")
        return refused

    @asynccontextmanager
    async def _locked(self) -> AsyncIterator[None]:
        """The right to change this server's weights, among all processes that see the run's folder."""
        await asyncio.to_thread(self._room.parent.mkdir, parents=True, exist_ok=True)
        with self._room.with_name(f"{self._room.name}.lock").open("a") as file:
            await asyncio.to_thread(fcntl.flock, file, fcntl.LOCK_EX)
            yield
