"""The trainer process as the loop sees it: batches in, updates out, and a new process when one is lost.

Invariant: orders are answered in the order they were given, each exactly once. A lost trainer is replaced by one that
starts from the state after the newest answer, and every order that was not answered is given to it again.
"""

from __future__ import annotations

import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ludus.errors import TrainError, WorkerError
from ludus.lm.teachers import TeacherModel
from ludus.orchestrator.rooms import Rooms
from ludus.orchestrator.teacher import keep_teacher
from ludus.orchestrator.worker_imports import worker_imports
from ludus.records import Experiences
from ludus.runtime import Arrived, Lost, WorkerSpec
from ludus.storage.arrow import experiences_to_table, to_bytes
from ludus.storage.atomic import temporary_name
from ludus.train.messages import FromTrainer, Saved, SaveInto, Trained, TrainerBroken, TrainerSetup, TrainOn

NAME = "trainer"
FILES = ("weights.safetensors", "optimizer.safetensors")
FIRST_SAVE_S = 600.0


@dataclass(slots=True, kw_only=True, eq=False)
class Order:
    """One update that the trainer was asked for."""

    update: int
    seed: int
    progress: float
    experiences: Experiences
    claim: Any
    staging: Path


class TrainerClient:
    """Owns the trainer process of a split run."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._orders: deque[Order] = deque()
        self._written: Path | None = None
        self._answered: list[Order] = []
        self._base: Path | None = None
        self._save_wanted = False
        self._teacher: TeacherModel | None = None

    @property
    def queued(self) -> int:
        """Orders not answered yet."""
        return len(self._orders)

    def begin(self, checkpoint: Path | None) -> None:
        """Start the process from a checkpoint, or with fresh weights."""
        rooms = self._rooms
        self._teacher = keep_teacher(rooms.config, rooms.run)
        rooms.supervisor.start(
            WorkerSpec(
                name=NAME,
                module="ludus.train.worker",
                replies=FromTrainer,
                threads=rooms.config.runtime.threads or 1,
                stall_s=rooms.config.runtime.stall_s,
                imports=worker_imports(rooms.config),
            )
        )
        self._greet(checkpoint)

    def order(self, *, update: int, seed: int, progress: float, experiences: Experiences, claim: Any) -> None:
        """Ask for an update."""
        staging = self._scratch()
        order = Order(
            update=update, seed=seed, progress=progress, experiences=experiences, claim=claim, staging=staging
        )
        self._orders.append(order)
        self._send(order)

    def absorb(self, event: Arrived | Lost) -> Iterator[tuple[Order, Trained]]:
        """Take a supervisor event that concerns the trainer; yields the update it finished."""
        if event.worker != NAME:
            return
        if isinstance(event, Lost):
            self._recover(event)
        elif isinstance(event.message, Trained):
            order = self._orders.popleft()
            self._answered.append(order)
            self._discard(self._base)
            self._base = None
            yield order, event.message
        elif isinstance(event.message, TrainerBroken):
            raise TrainError(event.message.error)
        elif isinstance(event.message, Saved):
            self._written = Path(event.message.staging)

    def conclude(self, order: Order) -> None:
        """The loop takes this update as done: `save` now means the state after it."""
        self._answered.remove(order)
        self._discard(self._written)
        self._written = order.staging

    def save(self, staging: Path, tend: Callable[[float], None]) -> None:
        """Put the state after the update that was concluded last into `staging`; the trainer may be ahead of it."""
        saved = self._rooms.checkpoints.list()
        if self._written is None and saved:
            _copy_state(self._rooms.checkpoints.directory / f"{saved[-1]:08d}", staging)
            return
        if self._written is None:
            self._ask_to_save(tend)
        if self._written is None:
            raise WorkerError(f"{NAME} did not save its state within {FIRST_SAVE_S:g} s")
        for name in FILES:
            (self._written / name).rename(staging / name)
        self._discard(self._written)
        self._written = None

    def _ask_to_save(self, tend: Callable[[float], None]) -> None:
        """Only for the very first checkpoint, before anything is ordered."""
        end = time.monotonic() + FIRST_SAVE_S
        self._save_wanted = True
        self._send_save()
        while self._written is None and time.monotonic() < end:
            tend(0.1)
        self._save_wanted = False

    def _send_save(self) -> None:
        self._rooms.supervisor.send(NAME, SaveInto(staging=str(self._scratch())))

    def _greet(self, checkpoint: Path | None) -> None:
        rooms = self._rooms
        setup = TrainerSetup(
            config=rooms.config.model_dump_json(),
            shape=rooms.shape.to_json(),
            checkpoint=str(checkpoint) if checkpoint is not None else "",
            scratch=str(rooms.checkpoints.directory),
            start=str(rooms.start.run.policies) if rooms.start is not None else "",
            start_policy=str(rooms.start.policy) if rooms.start is not None else "",
            teacher={} if self._teacher is None else self._teacher.to_json(),
        )
        rooms.supervisor.send(NAME, setup)

    def _send(self, order: Order) -> None:
        message = TrainOn(update=order.update, seed=order.seed, progress=order.progress, staging=str(order.staging))
        self._rooms.supervisor.send(NAME, message, to_bytes(experiences_to_table(order.experiences)))

    def _recover(self, lost: Lost) -> None:
        """Set a replacement up with the newest state there is, and repeat what was asked of the one before."""
        self._rooms.telemetry.event("worker_lost", worker=NAME, reason=lost.reason, log_tail=lost.log_tail)
        newest = self._answered[-1].staging if self._answered else self._written
        if newest is not None:
            # The loop will move these files into a checkpoint, perhaps before the new process has read them.
            self._discard(self._base)
            self._base = self._scratch()
            _copy_state(newest, self._base)
            self._greet(self._base)
        else:
            saved = self._rooms.checkpoints.latest()
            self._greet(None if saved is None else saved.path)
        for order in self._orders:
            self._discard(order.staging)
            order.staging = self._scratch()
            self._send(order)
        if self._save_wanted:
            self._send_save()

    def _scratch(self) -> Path:
        """A folder for the trainer to write into, beside the checkpoints so that its files can be moved there."""
        folder = temporary_name(self._rooms.checkpoints.directory)
        folder.mkdir()
        return folder

    @staticmethod
    def _discard(folder: Path | None) -> None:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _copy_state(source: Path, target: Path) -> None:
    for name in FILES:
        shutil.copy2(source / name, target / name)
