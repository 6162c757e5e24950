"""Keeps a set of worker processes alive: notices death and hanging, restarts within bounds, leaves no orphans.

Invariant: `poll` never waits longer than its timeout, and every loss of a worker is reported exactly once. What was
in that worker's hands is the caller's to give out again.
"""

from __future__ import annotations

import logging
import selectors
import subprocess
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ludus.errors import ProtocolError, WorkerError
from ludus.runtime.process import WorkerProcess, WorkerSpec
from ludus.runtime.pulse import NO_TASK

log = logging.getLogger(__name__)

RESTART_WINDOW_S = 600.0
STACK_GRACE_S = 2.0  # given to a hung worker to write where it is; only one that is stopped takes it all
STACK_QUIET_S = 0.1  # stacks arrive line by line: they are whole when nothing more comes
EXIT_GRACE_S = 10.0  # between closing its connection and having ended; a busy machine takes its time over a crash
START_GRACE_S = 300.0
"""A worker may take that long to begin with what it was sent: it may be importing or compiling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """A message from a worker."""

    worker: str
    message: object
    blob: memoryview


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A worker died or hung and has been replaced by a new, empty one under the same name."""

    worker: str
    reason: str
    task: int | None
    """The task whose code was running, if known."""
    log_tail: str


class Supervisor:
    """Owns worker processes. Use from one thread."""

    def __init__(self, log_dir: Path, *, max_restarts: int) -> None:
        self._log_dir = log_dir
        self._max_restarts = max_restarts
        self._workers: dict[str, WorkerProcess] = {}
        self._selector = selectors.DefaultSelector()
        self._seen: dict[str, tuple[int, float]] = {}
        self._owes: set[str] = set()
        self._losses: dict[str, deque[float]] = {}

    def start(self, spec: WorkerSpec) -> None:
        """Start a worker; its log is `<name>.log` in the log folder."""
        worker = WorkerProcess(spec, self._log_dir / f"{spec.name}.log")
        self._workers[spec.name] = worker
        self._seen[spec.name] = (worker.pulse.ticks, time.monotonic())
        self._selector.register(worker.channel, selectors.EVENT_READ, spec.name)

    def pid(self, worker: str) -> int:
        """Process id of a worker."""
        return self._workers[worker].pid

    def send(self, worker: str, message: msgspec.Struct, blob: bytes | memoryview = b"") -> None:
        """Queue a message. A worker that is gone is reported by the next poll, not here."""
        process = self._workers[worker]
        if worker not in self._owes and not process.pulse.is_busy:
            self._owes.add(worker)
            self._seen[worker] = (process.pulse.ticks, time.monotonic())
        try:
            process.channel.send(message, blob)
        except (BrokenPipeError, ConnectionError):
            log.debug("%s is gone; its message is dropped", worker)

    def poll(self, timeout_s: float) -> list[Arrived | Lost]:
        """What happened: messages that came, workers that were lost. Waits at most `timeout_s`."""
        for name, worker in self._workers.items():
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if worker.channel.has_unsent else 0)
            self._selector.modify(worker.channel, events, name)
        happened: list[Arrived | Lost] = []
        for key, events in self._selector.select(timeout_s):
            name = str(key.data)
            if events & selectors.EVENT_WRITE:
                self._flush(name)
            if events & selectors.EVENT_READ:
                happened += self._receive(name)
        happened += self._find_hung()
        return happened

    def stop(self, farewell: msgspec.Struct | None = None, grace_s: float = 5.0) -> None:
        """End all workers: ask first if there is a farewell to send, then make sure."""
        if farewell is not None:
            for name in self._workers:
                self.send(name, farewell)
        end = time.monotonic() + (grace_s if farewell is not None else 0.0)
        for worker in self._workers.values():
            while worker.process.poll() is None and time.monotonic() < end:
                self._selector.select(0.02)
                try:
                    worker.channel.receive()
                    worker.channel.flush()
                except (EOFError, ConnectionError, ProtocolError):
                    time.sleep(0.01)
            worker.kill()
        self._workers.clear()
        self._selector.close()

    def dismiss(self, name: str) -> None:
        """End one worker whose work is done; nothing if it was lost for good."""
        worker = self._workers.pop(name, None)
        if worker is None:
            return
        self._selector.unregister(worker.channel)
        self._owes.discard(name)
        worker.kill()

    def _flush(self, name: str) -> None:
        try:
            self._workers[name].channel.flush()
        except (BrokenPipeError, ConnectionError):
            log.debug("%s took no more data", name)

    def _receive(self, name: str) -> list[Arrived | Lost]:
        worker = self._workers[name]
        try:
            frames = worker.channel.receive()
        except EOFError:
            with suppress(subprocess.TimeoutExpired):
                worker.process.wait(EXIT_GRACE_S)
            return [self._replace(name, worker.describe_exit())]
        except ProtocolError as error:
            return [self._replace(name, f"sent garbage ({error})")]
        if frames:
            # A sign of life like a tick: without it, a worker that took long to begin would count as hung right then.
            self._owes.discard(name)
            self._seen[name] = (worker.pulse.ticks, time.monotonic())
        return [Arrived(worker=name, message=message, blob=blob) for message, blob in frames]

    def _find_hung(self) -> list[Lost]:
        now = time.monotonic()
        hung = []
        for name, worker in self._workers.items():
            ticks, since = self._seen[name]
            if worker.pulse.ticks != ticks:
                self._owes.discard(name)
            if worker.pulse.ticks != ticks or not (worker.pulse.is_busy or name in self._owes):
                self._seen[name] = (worker.pulse.ticks, now)
            elif now - since > self._patience(name, worker):
                hung.append(name)
        return [self._replace_hung(name) for name in hung]

    def _patience(self, name: str, worker: WorkerProcess) -> float:
        return max(worker.spec.stall_s, START_GRACE_S) if name in self._owes else worker.spec.stall_s

    def _replace_hung(self, name: str) -> Lost:
        worker = self._workers[name]
        worker.ask_for_stack()
        self._await_stack(worker)
        return self._replace(name, f"made no progress for {self._patience(name, worker):g} s")

    def _replace(self, name: str, reason: str) -> Lost:
        """Kill what is left of a worker and start a fresh one, unless it has been lost too often."""
        worker = self._workers[name]
        task = worker.pulse.task
        self._selector.unregister(worker.channel)
        self._owes.discard(name)
        worker.kill()
        lost = Lost(worker=name, reason=reason, task=None if task == NO_TASK else task, log_tail=worker.log_tail(40))
        log.warning("%s %s; task in hand: %s", name, reason, lost.task)
        self._count_loss(lost)
        self.start(worker.spec)
        return lost

    @staticmethod
    def _await_stack(worker: WorkerProcess) -> None:
        end = time.monotonic() + STACK_GRACE_S
        seen, since = "", time.monotonic()
        while (now := time.monotonic()) < end:
            tail = worker.log_tail(40)
            if tail != seen:
                seen, since = tail, now
            elif "most recent call first" in tail and now - since > STACK_QUIET_S:
                return
            time.sleep(0.02)

    def _count_loss(self, lost: Lost) -> None:
        now = time.monotonic()
        losses = self._losses.setdefault(lost.worker, deque())
        losses.append(now)
        while losses and now - losses[0] > RESTART_WINDOW_S:
            losses.popleft()
        if len(losses) > self._max_restarts:
            del self._workers[lost.worker]
            raise WorkerError(
                f"{lost.worker} {lost.reason}; it was lost {len(losses)} times within "
                f"{RESTART_WINDOW_S / 60:.0f} minutes, more than runtime.max_restarts = {self._max_restarts}. "
                f"Its last lines:\n{lost.log_tail}"
            )
