"""A fused learner's engine in a worker on some node, as the loop sees it.

Invariant: what is counted was computed from the newest checkpoint by the orders that are kept here. A lost worker is
replaced by one that begins with that checkpoint and does them again, which gives the same bits; what was counted before
is not counted again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ludus.errors import IncompleteCheckpoint, TrainError
from ludus.explore.runners.device_runner import Tally
from ludus.orchestrator.context import RunContext
from ludus.orchestrator.fused.engine import DevicePart, Tensors
from ludus.orchestrator.fused.messages import (
    FromFused,
    FusedBroken,
    FusedSetup,
    PlayAndTrain,
    SaveState,
    StateSaved,
    Updated,
)
from ludus.orchestrator.fused.opponent_blocks import UNIFORM_PLAYER
from ludus.orchestrator.placement import learner_threads
from ludus.orchestrator.run_store import RunStore
from ludus.orchestrator.workers import Workers
from ludus.records import PolicyRef
from ludus.runtime import Arrived, Lost, WorkerSpec
from ludus.storage.atomic import discard_tree, temporary_name
from ludus.storage.checkpoints import Checkpoint
from ludus.storage.filesystem import REAL
from ludus.storage.tensors import load_tensors

log = logging.getLogger(__name__)

NAME = "learner"
MODULE = "ludus.orchestrator.fused.worker"


class HostedEngine:
    """Owns the worker. Use from the loop's thread."""

    def __init__(self, context: RunContext, part: DevicePart, store: RunStore, workers: Workers) -> None:
        self._context, self._part, self._store, self._workers = context, part, store, workers
        self._refs: tuple[PolicyRef, ...] = ()
        self._sound = {PolicyRef.parse(UNIFORM_PLAYER)}
        """Opponents that are whole on the run's disk."""
        self._orders: list[PlayAndTrain] = []
        """Since the newest checkpoint, the one in hand last."""
        self._written = 0
        """The newest update whose state is in a checkpoint."""
        self._answer: Updated | None = None
        self._staging: Path | None = None
        """Where the worker is to write its state."""
        self._key: list[int] | None = None
        self._weights: Tensors = {}
        workers.listen(self._absorb)

    def begin(self, saved: Checkpoint | None) -> None:
        """Have a worker started, with a checkpoint or with fresh weights."""
        config = self._context.config
        self._written = 0 if saved is None else saved.update
        self._weights = {} if saved is None else saved.tensors("weights")
        threads, shards = learner_threads(config, self._context.launcher), config.train.shards
        self._context.supervisor.start(
            WorkerSpec(
                name=NAME,
                module=MODULE,
                replies=FromFused,
                threads=max(threads, shards),
                devices=shards,
                stall_s=config.runtime.stall_s,
                imports=(MODULE,),
            )
        )
        self._greet(saved)
        self._context.telemetry.meters.watch_workers("train", lambda: self._context.supervisor.cpu_s([NAME]))

    def play_against(self, refs: Sequence[PolicyRef]) -> None:
        """From now on these are the opponents, block by block.

        Raises:
            StorageError: one of them cannot be loaded.
        """
        for ref in {*refs} - self._sound:
            self._store.policies.load(ref)
            self._sound.add(ref)
        self._refs = tuple(refs)

    def update(self, restart: Sequence[bool], progress: float) -> tuple[Mapping[str, Any], Tally]:
        """One update; returns metrics and the tally."""
        order = PlayAndTrain(
            number=self._newest + 1,
            opponents=[str(ref) for ref in self._refs],
            restart=list(restart),
            progress=progress,
        )
        self._orders.append(order)
        self._answer = None
        self._context.supervisor.send(NAME, order)
        self._workers.wait_until(lambda: self._answer is not None, whom=NAME)
        assert self._answer is not None  # noqa: S101
        return self._answer.metrics, Tally(**{name: each.array() for name, each in self._answer.tally.items()})

    def write(self, folder: Path) -> list[int]:
        """Bring the state after the newest update into a checkpoint's folder; returns its random key."""
        self._key = None
        self._ask_to_save()
        self._workers.wait_until(lambda: self._key is not None, whom=NAME)
        assert self._staging is not None  # noqa: S101
        assert self._key is not None  # noqa: S101
        for path in self._staging.iterdir():
            REAL.rename(path, folder / path.name)
        discard_tree(self._staging)
        self._staging = None
        self._orders, self._written = [], self._newest
        self._weights = load_tensors(folder / "weights.safetensors")
        return self._key

    def weights(self) -> Tensors:
        """The learner's weights as of the last checkpoint."""
        return self._weights

    @property
    def _newest(self) -> int:
        """The update that was ordered last."""
        return self._orders[-1].number if self._orders else self._written

    def _greet(self, saved: Checkpoint | None) -> None:
        context, part = self._context, self._part
        setup = FusedSetup(
            config=context.config.model_dump_json(),
            shape=context.shape.to_json(),
            blocks=list(part.blocks),
            learner_seat=part.learner_seat,
            is_population=part.is_population,
            checkpoint="" if saved is None else saved.path.name,
            key=[] if saved is None else saved.state["key"],
            start="" if context.start is None else str(context.start.run.policies),
            start_policy="" if context.start is None else str(context.start.policy),
            plugins=list(context.plugins),
        )
        context.supervisor.send(NAME, setup)

    def _ask_to_save(self) -> None:
        if self._staging is not None:
            discard_tree(self._staging)
        self._staging = temporary_name(self._store.checkpoints.directory)
        REAL.make_directory(self._staging)
        self._context.supervisor.send(NAME, SaveState(staging=self._staging.name))

    def _absorb(self, event: Arrived | Lost) -> None:
        """Take a supervisor event that concerns the worker."""
        if event.worker != NAME:
            return
        if isinstance(event, Lost):
            self._recover(event)
        elif isinstance(event.message, Updated):
            if self._answer is None and event.message.number == self._newest:
                self._answer = event.message
        elif isinstance(event.message, StateSaved):
            if self._staging is not None and event.message.staging == self._staging.name:
                self._key = event.message.key
        elif isinstance(event.message, FusedBroken):
            raise TrainError(event.message.error)

    def _recover(self, lost: Lost) -> None:
        """Have the replacement begin with the newest checkpoint and do again what has been done since."""
        self._context.telemetry.event("worker_lost", worker=NAME, reason=lost.reason, log_tail=lost.log_tail)
        saved = self._store.checkpoints.latest()
        if self._written and (saved is None or saved.update < self._written):
            raise IncompleteCheckpoint(
                f"{NAME} was lost, and {self._store.checkpoints.directory} has lost the checkpoint of update "
                f"{self._written}; the next start resumes the run"
            )
        self._greet(saved)
        for order in self._orders:
            self._context.supervisor.send(NAME, order)
        if self._staging is not None and self._key is None:
            self._ask_to_save()
