"""The trainer process as the loop sees it: batches in, updates out, and a new process when one is lost.

Invariant: orders are answered in the order they were given, each exactly once. A lost trainer is replaced by one that
starts from the newest state that was written, and is given again every order since. The trainer writes its state after
every update where it may be ahead of the loop; a language model in the synchronous schedule, when it is asked to.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ludus.errors import IncompleteCheckpoint, TrainError, WorkerError
from ludus.lm.probe import probe_files
from ludus.orchestrator.context import RunContext
from ludus.orchestrator.loader_watch import LoaderStatus, LoaderWatch
from ludus.orchestrator.milestones import Milestones
from ludus.orchestrator.progress import Learner, UpdateReport, report_of
from ludus.orchestrator.run_store import RunStore
from ludus.orchestrator.trainer_group import NAME, TrainerGroup
from ludus.orchestrator.workers import POLL_S, Workers
from ludus.records import derive_seed
from ludus.runtime import Arrived, Lost
from ludus.sources.protocol import Batch
from ludus.storage.arrow import experiences_to_table, to_bytes
from ludus.storage.atomic import temporary_name
from ludus.storage.checkpoints import MANIFEST, Checkpoint, CheckpointStore
from ludus.storage.filesystem import REAL
from ludus.storage.tensor_shards import Part, load_part
from ludus.storage.traces import TraceLog
from ludus.telemetry import Fill
from ludus.train.messages import (
    LoaderReport,
    MeetingPlace,
    Saved,
    SaveInto,
    Trained,
    TrainerBroken,
    TrainOn,
)

log = logging.getLogger(__name__)

FIRST_SAVE_S = 600.0
ORDERS_AHEAD = 2
"""Batches that the trainer has in hand in the asynchronous schedule, so that it never waits for the loop."""


@dataclass(slots=True, kw_only=True, eq=False)
class Order:
    """One update that the trainer was asked for."""

    update: int
    progress: float
    batch: Batch
    staging: Path | None
    """Where the trainer writes the state after it, if it does."""

    @property
    def folder(self) -> str:
        """The name of that."""
        return "" if self.staging is None else self.staging.name


class TrainerClient(Learner):
    """Owns the trainer process of a split run. Up to `depth` orders are in its hands at once."""

    def __init__(self, context: RunContext, store: RunStore, workers: Workers, milestones: Milestones) -> None:
        config = context.config
        self._context = context
        self.shape = context.shape
        self._workers = workers
        self._milestones = milestones
        self.depth = ORDERS_AHEAD if config.schedule == "async" else 1
        """In sync, 1: an update must not depend on how fast anything was."""
        self.publish_interval = config.publish_interval if config.mode != "explore" else None
        self._ordered = 0
        self._orders: deque[Order] = deque()
        self._finished: deque[tuple[Order, Trained, bytes]] = deque()
        saves_each = not (config.policy.model and config.schedule == "sync" and config.buffer.loader is None)
        self._states = TrainerStates(store.checkpoints, store.traces, saves_each=saves_each)
        self._group = TrainerGroup(context)
        self.loader = LoaderWatch(context.run.refused_chunks, context.telemetry.event)
        """What the trainer's loader was doing a moment ago."""
        workers.listen(self._absorb)

    @property
    def loader_status(self) -> LoaderStatus | None:
        """What the trainer's loader was doing a moment ago, for people."""
        return self.loader.status

    @property
    def beside(self) -> Mapping[str, bytes]:
        """What the trainer thinks of the probe, where it was asked."""
        return self._states.beside

    @property
    def in_flight(self) -> int:
        """Batches taken whose update has not been returned."""
        return len(self._orders) + len(self._finished)

    def begin(self, saved: Checkpoint | None) -> None:
        """Start the process from a checkpoint, or with fresh weights."""
        context = self._context
        self._ordered = self._milestones.progress.update
        self._states.traces.rewind(self._ordered)
        self._group.start()
        self._greet(None if saved is None else saved.path)
        self._states.weights = {} if saved is None else saved.tensors("weights")
        meters = context.telemetry.meters
        meters.watch("train", "batches", lambda: Fill(length=len(self._orders), capacity=self.depth))
        meters.watch_workers("train", lambda: context.supervisor.cpu_s([NAME, *self._group.others]))

    def step(self, batch: Batch | None) -> UpdateReport | None:
        """Send a batch; returns an update that is done. In sync, waits for that of this batch, unless a loader does."""
        if batch is not None and batch.explored is not None:
            steps, episodes = batch.explored
            return UpdateReport(batch=batch, steps=steps, episodes=episodes, is_learnt=False)
        if batch is not None:
            self._order(batch)
        if self.depth == 1 and self._orders and not self._orders[0].batch.is_pulled:
            self._workers.wait_until(lambda: bool(self._finished), whom=NAME)
        elif not self._finished:
            self._workers.serve(0.0 if batch is not None else POLL_S)
        return self._conclude(*self._finished.popleft()) if self._finished else None

    def save(self, staging: Path) -> dict[str, Any]:
        """Put the state after the update that was returned last into `staging`; the trainer may be ahead of it."""
        if self._states.since or not self._states.is_there:
            self._ask_to_save()
            self._states.since.clear()
        self._states.move_into(staging)
        return {}

    def weights(self) -> Mapping[str, NDArray[Any]]:
        """The weights now; they may be read, one by one, until this is called again."""
        if self._states.since:
            self._ask_to_save(only_weights=True)
            return self._states.take_weights()
        weights = self._states.weights
        # Pieces are read when they are used, and the folder has its name by now.
        return self._states.checkpoints.newest_part("weights") if isinstance(weights, Part) else weights

    def _order(self, batch: Batch) -> None:
        self._ordered += 1
        order = Order(
            update=self._ordered,
            progress=self._milestones.share_done,
            batch=batch,
            staging=self._states.scratch() if self._states.saves_each else None,
        )
        if batch.admits:
            self.loader.new_sequences = 0
        self._orders.append(order)
        self._send(order)

    def _conclude(self, order: Order, trained: Trained, traces: bytes) -> UpdateReport:
        """The loop takes this update as done: `save` now means the state after it."""
        if order.staging is not None:
            self._states.conclude(order.staging)
        self._states.beside = probe_files(trained.probe)
        self._states.traces.add(order.update, traces)
        self._context.telemetry.meters.add("train", 1)
        report = report_of(order.batch, trained, self._context.config.league)
        return replace(report, metrics={**report.metrics, "queue/batches_ahead": float(len(self._orders))})

    def _absorb(self, event: Arrived | Lost) -> None:
        """Take a supervisor event that concerns the trainer."""
        if event.worker not in self._group:
            return
        if isinstance(event, Lost):
            self._recover(event)
        elif isinstance(event.message, Trained):
            if event.message.update in self._states.repeated:
                self._states.repeated.remove(event.message.update)
                return
            if not self._is_awaited(event.message):
                log.warning("%s answered update %d, which nobody waits for; dropped", NAME, event.message.update)
                self._context.telemetry.event("refused_late", worker=NAME, answers=1)
                return
            order = self._orders.popleft()
            if order.staging is None:
                self._states.since.append(order)
            else:
                self._states.answer(order.staging)
            self._finished.append((order, event.message, bytes(event.blob)))
        elif isinstance(event.message, MeetingPlace):
            self._group.introduce(event.message)
        elif isinstance(event.message, TrainerBroken):
            raise TrainError(event.message.error)
        elif isinstance(event.message, LoaderReport):
            self.loader.absorb(event.message, ordered=self._ordered)
        elif isinstance(event.message, Saved) and self._states.wanted:
            self._states.written = self._states.checkpoints.directory / event.message.staging
            self._states.beside = probe_files(event.message.probe)

    def _is_awaited(self, answer: Trained) -> bool:
        """Whether it is that to the oldest order, as it was given last."""
        if not self._orders or answer.update != self._orders[0].update:
            return False
        return answer.staging in ("", self._orders[0].folder)

    def _ask_to_save(self, *, only_weights: bool = False) -> None:
        """Have the state written while nothing is ordered, and wait for it."""
        end = time.monotonic() + FIRST_SAVE_S
        self._states.wanted = "weights" if only_weights else "state"
        self._send_save()
        while self._states.written is None and time.monotonic() < end:
            self._workers.serve(0.1)
        self._states.wanted = ""
        if self._states.written is None:
            raise WorkerError(f"{NAME} did not save its state within {FIRST_SAVE_S:g} s")

    def _send_save(self) -> None:
        folder = self._states.scratch().name
        self._context.supervisor.send(NAME, SaveInto(staging=folder, only_weights=self._states.wanted == "weights"))

    def _greet(self, checkpoint: Path | None) -> None:
        self._group.greet(checkpoint, self._ordered - len(self._orders) - len(self._states.since))

    def _send(self, order: Order) -> None:
        seed = derive_seed(self._context.config.seed, "update", order.update) % 2**32
        message = TrainOn(
            update=order.update,
            seed=seed,
            progress=order.progress,
            staging=order.folder,
            is_pulled=order.batch.is_pulled,
            admits=order.batch.admits,
            validates=order.batch.validates,
        )
        rows = b"" if order.batch.is_pulled else to_bytes(experiences_to_table(order.batch.experiences))
        self._context.supervisor.send(NAME, message, rows)

    def _recover(self, lost: Lost) -> None:
        """Set a replacement up with the newest state there is, and repeat what was asked of the one before."""
        self._context.telemetry.event("worker_lost", worker=lost.worker, reason=lost.reason, log_tail=lost.log_tail)
        if not self._group.replace(lost):
            return
        self._greet(self._states.newest())
        self._states.repeated = {order.update for order in self._states.since}
        for order in (*self._states.since, *self._orders):
            if order.staging is not None:
                order.staging = self._states.scratch(instead_of=order.staging)
            self._send(order)
        if self._states.wanted:
            self._send_save()


class TrainerStates:
    """Keeps folders beside the checkpoints, so that their files can be moved there."""

    def __init__(self, checkpoints: CheckpointStore, traces: TraceLog, *, saves_each: bool) -> None:
        self.checkpoints, self.traces = checkpoints, traces
        self.saves_each = saves_each
        """Whether the trainer writes its state after every update."""
        self.since: list[Order] = []
        """Answered since the state was written last."""
        self.repeated: set[int] = set()
        """Updates of those that a replacement was given again; their answers are known."""
        self._answered: list[Path] = []
        self._base: Path | None = None
        self._published: Path | None = None
        self.written: Path | None = None
        """The state after the update that was concluded last, if no checkpoint has it."""
        self.wanted = ""
        """What the trainer was asked to write, `state` or `weights` alone, and has not written yet."""
        self.weights: Mapping[str, NDArray[Any]] = {}
        """As of the last checkpoint, where they were read."""
        self.beside: Mapping[str, bytes] = {}
        """Files that go with them."""

    @property
    def is_there(self) -> bool:
        """Whether there is a state to save; the trainer must be asked for the very first."""
        return self.written is not None or bool(self.checkpoints.list())

    def scratch(self, *, instead_of: Path | None = None) -> Path:
        """A folder for the trainer to write into."""
        _discard(instead_of)
        folder = temporary_name(self.checkpoints.directory)
        REAL.make_directory(folder)
        return folder

    def answer(self, folder: Path) -> None:
        """The trainer has written the state after an update."""
        self._answered.append(folder)
        _discard(self._base)
        self._base = None

    def conclude(self, folder: Path) -> None:
        """The loop takes that update as done."""
        self._answered.remove(folder)
        _discard(self.written)
        self.written = folder

    def move_into(self, staging: Path) -> None:
        """Put the state after the last concluded update into a checkpoint's folder."""
        if self.written is None:
            _copy(self.checkpoints.directory / f"{self.checkpoints.list()[-1]:08d}", staging)
        else:
            for path in _files(self.written):
                REAL.rename(path, staging / path.name)
            _discard(self.written)
            self.written = None
        self.weights = load_part(staging, "weights")

    def take_weights(self) -> Mapping[str, NDArray[Any]]:
        """The weights that were written for themselves, in a folder that is kept until the next are."""
        _discard(self._published)
        self._published, self.written = self.written, None
        return {} if self._published is None else load_part(self._published, "weights")

    def newest(self) -> Path | None:
        """A folder with the newest state, for a new process; None to begin with fresh weights."""
        newest = self._answered[-1] if self._answered else self.written
        if newest is None:
            saved = self.checkpoints.latest()
            if saved is None and self.weights:
                raise IncompleteCheckpoint(f"{self.checkpoints.directory} has lost its checkpoints; not starting over")
            return None if saved is None else saved.path
        # The loop will move these files into a checkpoint, perhaps before the new process has read them.
        self._base = self.scratch(instead_of=self._base)
        _copy(newest, self._base)
        return self._base


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name != MANIFEST)


def _copy(source: Path, target: Path) -> None:
    for path in _files(source):
        shutil.copy2(path, target / path.name)


def _discard(folder: Path | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
