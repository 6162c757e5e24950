"""The trainer process as the loop sees it: batches in, updates out, and a new process when one is lost.

Invariant: orders are answered in the order they were given, each exactly once. A lost trainer is replaced by one that
starts from the state after the newest answer, and every order that was not answered is given to it again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ludus.errors import TrainError, WorkerError
from ludus.lm.teachers import TeacherModel
from ludus.orchestrator.context import RunContext
from ludus.orchestrator.learner import Learner
from ludus.orchestrator.milestones import Milestones
from ludus.orchestrator.progress import UpdateReport
from ludus.orchestrator.run_store import RunStore
from ludus.orchestrator.teacher import keep_teacher
from ludus.orchestrator.trainer_states import TrainerStates
from ludus.orchestrator.update_report import meets_others, report_of
from ludus.orchestrator.worker_imports import worker_imports
from ludus.orchestrator.workers import POLL_S, Workers
from ludus.policies import AnyShape
from ludus.records import derive_seed
from ludus.runtime import Arrived, Lost, WorkerSpec
from ludus.sources.protocol import Batch
from ludus.storage.arrow import experiences_to_table, to_bytes
from ludus.storage.checkpoints import Checkpoint
from ludus.telemetry import Fill
from ludus.train.messages import FromTrainer, Saved, SaveInto, Trained, TrainerBroken, TrainerSetup, TrainOn

NAME = "trainer"
FIRST_SAVE_S = 600.0
ORDERS_AHEAD = 2
"""Batches that the trainer has in hand in the asynchronous schedule, so that it never waits for the loop."""


@dataclass(slots=True, kw_only=True, eq=False)
class Order:
    """One update that the trainer was asked for."""

    update: int
    progress: float
    batch: Batch
    staging: Path


class TrainerClient(Learner):
    """Owns the trainer process of a split run. Up to `depth` orders are in its hands at once."""

    def __init__(self, context: RunContext, store: RunStore, workers: Workers, milestones: Milestones) -> None:
        config = context.config
        self._context = context
        self._checkpoints = store.checkpoints
        self._workers = workers
        self._milestones = milestones
        self.depth = ORDERS_AHEAD if config.schedule == "async" else 1
        """In sync, 1: an update must not depend on how fast anything was."""
        self.publish_interval = config.publish_interval if config.mode != "explore" else None
        self._ordered = 0
        self._orders: deque[Order] = deque()
        self._finished: deque[tuple[Order, Trained]] = deque()
        self._states = TrainerStates(store.checkpoints)
        self._teacher: TeacherModel | None = None
        workers.listen(self._absorb)

    @property
    def shape(self) -> AnyShape:
        """The run's."""
        return self._context.shape

    @property
    def in_flight(self) -> int:
        """Batches taken whose update has not been returned."""
        return len(self._orders) + len(self._finished)

    def begin(self, saved: Checkpoint | None) -> None:
        """Start the process from a checkpoint, or with fresh weights."""
        context, runtime = self._context, self._context.config.runtime
        self._teacher = keep_teacher(context.config, context.run)
        self._ordered = self._milestones.progress.update
        context.supervisor.start(
            WorkerSpec(
                name=NAME,
                module="ludus.train.worker",
                replies=FromTrainer,
                threads=runtime.threads or 1,
                stall_s=runtime.stall_s,
                imports=worker_imports(context.config),
            )
        )
        self._greet(None if saved is None else saved.path)
        self._states.weights = {} if saved is None else saved.tensors("weights")
        meters = context.telemetry.meters
        meters.watch("train", "batches", lambda: Fill(length=len(self._orders), capacity=self.depth))
        meters.watch_workers("train", lambda: [context.supervisor.pid(NAME)])

    def step(self, batch: Batch | None) -> UpdateReport | None:
        """Send a batch; returns an update that is done. In sync, waits for that of this batch."""
        if batch is not None and batch.explored is not None:
            steps, episodes = batch.explored
            return UpdateReport(batch=batch, steps=steps, episodes=episodes, is_learnt=False)
        if batch is not None:
            self._order(batch)
        if self.depth == 1 and self._orders:
            self._workers.wait_until(lambda: bool(self._finished))
        elif not self._finished:
            self._workers.serve(0.0 if batch is not None else POLL_S)
        return self._conclude(*self._finished.popleft()) if self._finished else None

    def save(self, staging: Path) -> dict[str, Any]:
        """Put the state after the update that was returned last into `staging`; the trainer may be ahead of it."""
        if not self._states.is_there:
            self._ask_to_save()
        self._states.move_into(staging)
        return {}

    def weights(self) -> Mapping[str, NDArray[Any]]:
        """The weights as of the last save."""
        return self._states.weights

    def _order(self, batch: Batch) -> None:
        self._ordered += 1
        order = Order(
            update=self._ordered,
            progress=self._milestones.share_done,
            batch=batch,
            staging=self._states.scratch(),
        )
        self._orders.append(order)
        self._send(order)

    def _conclude(self, order: Order, trained: Trained) -> UpdateReport:
        """The loop takes this update as done: `save` now means the state after it."""
        self._states.conclude(order.staging)
        self._context.telemetry.meters.add("train", 1)
        report = report_of(order.batch, trained, meets_others=meets_others(self._context.config.league))
        return replace(report, metrics={**report.metrics, "queue/batches_ahead": float(len(self._orders))})

    def _absorb(self, event: Arrived | Lost) -> None:
        """Take a supervisor event that concerns the trainer."""
        if event.worker != NAME:
            return
        if isinstance(event, Lost):
            self._recover(event)
        elif isinstance(event.message, Trained):
            order = self._orders.popleft()
            self._states.answer(order.staging)
            self._finished.append((order, event.message))
        elif isinstance(event.message, TrainerBroken):
            raise TrainError(event.message.error)
        elif isinstance(event.message, Saved):
            self._states.written = Path(event.message.staging)

    def _ask_to_save(self) -> None:
        """Only for the very first checkpoint, before anything is ordered."""
        end = time.monotonic() + FIRST_SAVE_S
        self._states.is_wanted = True
        self._send_save()
        while self._states.written is None and time.monotonic() < end:
            self._workers.serve(0.1)
        self._states.is_wanted = False
        if self._states.written is None:
            raise WorkerError(f"{NAME} did not save its state within {FIRST_SAVE_S:g} s")

    def _send_save(self) -> None:
        self._context.supervisor.send(NAME, SaveInto(staging=str(self._states.scratch())))

    def _greet(self, checkpoint: Path | None) -> None:
        context = self._context
        setup = TrainerSetup(
            config=context.config.model_dump_json(),
            shape=context.shape.to_json(),
            checkpoint=str(checkpoint) if checkpoint is not None else "",
            scratch=str(self._checkpoints.directory),
            start=str(context.start.run.policies) if context.start is not None else "",
            start_policy=str(context.start.policy) if context.start is not None else "",
            teacher={} if self._teacher is None else self._teacher.to_json(),
            plugins=list(context.plugins),
        )
        context.supervisor.send(NAME, setup)

    def _send(self, order: Order) -> None:
        seed = derive_seed(self._context.config.seed, "update", order.update) % 2**32
        message = TrainOn(
            update=order.update,
            seed=seed,
            progress=order.progress,
            staging=str(order.staging),
            is_pulled=order.batch.is_pulled,
        )
        rows = b"" if order.batch.is_pulled else to_bytes(experiences_to_table(order.batch.experiences))
        self._context.supervisor.send(NAME, message, rows)

    def _recover(self, lost: Lost) -> None:
        """Set a replacement up with the newest state there is, and repeat what was asked of the one before."""
        self._context.telemetry.event("worker_lost", worker=NAME, reason=lost.reason, log_tail=lost.log_tail)
        self._greet(self._states.newest())
        for order in self._orders:
            order.staging = self._states.scratch(instead_of=order.staging)
            self._send(order)
        if self._states.is_wanted:
            self._send_save()
