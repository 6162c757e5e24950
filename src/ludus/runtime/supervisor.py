"""Keeps a set of worker processes alive: notices death, silence and hanging, restarts within bounds, leaves no orphans.

Invariant: `poll` never waits longer than its timeout, and every loss of a worker is reported exactly once. What was
in that worker's hands is the caller's to give out again.
"""

from __future__ import annotations

import logging
import selectors
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ludus.errors import ProtocolError, WorkerError
from ludus.runtime.fork_launcher import ForkLauncher
from ludus.runtime.launcher import LaunchedProcess, Launcher, WorkerSpec
from ludus.runtime.process import WorkerProcess
from ludus.runtime.pulse import NO_TASK
from ludus.runtime.signs_of_life import SignsOfLife

log = logging.getLogger(__name__)

RESTART_WINDOW_S = 600.0
STACK_GRACE_S = 2.0  # given to a hung worker to write where it is; only one that is stopped takes it all
STACK_QUIET_S = 0.1  # stacks arrive line by line: they are whole when nothing more comes
EXIT_GRACE_S = 10.0  # between closing its connection and having ended; a busy machine takes its time over a crash
MOST_GAP_S = 2.0
"""Between two polls no more time than this counts: while we were stopped or busy, a worker could not be looked at."""


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

    def __init__(
        self,
        log_dir: Path,
        *,
        max_restarts: int,
        tell: Callable[..., None] = lambda kind, **fields: None,
        launcher: Launcher | None = None,
    ) -> None:
        """`tell` gets `worker_silent` and `worker_back`, with the worker's name and more as keywords.

        Workers are forked on this machine unless a `launcher` starts them elsewhere.
        """
        self._log_dir = log_dir
        self._launcher = launcher or ForkLauncher()
        self._max_restarts = max_restarts
        self._tell = tell
        self._workers: dict[str, WorkerProcess] = {}
        self._starts: dict[str, int] = {}
        self._dropped = 0
        self._selector = selectors.DefaultSelector()
        self._signs: dict[str, SignsOfLife] = {}
        self._ending: dict[str, float] = {}
        """Workers that closed their connection, and until when their exit code is waited for."""
        self._losses: dict[str, deque[float]] = {}
        self._now, self._looked = 0.0, time.monotonic()
        self.silent: tuple[str, ...] = ()
        """Workers that give no sign of life. For any thread."""

    def start(self, spec: WorkerSpec) -> None:
        """Start a worker; its log is `<name>.log` in the log folder."""
        self._starts[spec.name] = incarnation = self._starts.get(spec.name, 0) + 1
        log_path = self._log_dir / f"{spec.name}.log"
        worker = WorkerProcess(spec, log_path, incarnation=incarnation, launcher=self._launcher)
        self._workers[spec.name] = worker
        self._signs[spec.name] = SignsOfLife(worker, self._now)
        self._selector.register(worker.channel, selectors.EVENT_READ, spec.name)

    def process(self, worker: str) -> LaunchedProcess:
        """The process that a worker is now."""
        return self._workers[worker].process

    def cpu_s(self, workers: Iterable[str]) -> dict[str, float]:
        """CPU seconds that workers have used since they were started, by name and incarnation. For any thread."""
        spent = {f"{name}#{self._starts[name]}": self._workers[name].process.cpu_s() for name in workers}
        return {name: seconds for name, seconds in spent.items() if seconds is not None}

    @property
    def dropped(self) -> int:
        """Frames that were not taken: repeated, or of an earlier incarnation."""
        return self._dropped + sum(worker.channel.dropped for worker in self._workers.values())

    def send(self, worker: str, message: msgspec.Struct, blob: bytes | memoryview = b"") -> None:
        """Queue a message. A worker that is gone is reported by the next poll, not here."""
        process = self._workers[worker]
        self._signs[worker].expect_answer(self._now)
        try:
            process.channel.send(message, blob)
        except (BrokenPipeError, ConnectionError):
            log.debug("%s is gone; its message is dropped", worker)

    def poll(self, timeout_s: float) -> list[Arrived | Lost]:
        """What happened: messages that came, workers that were lost. Waits at most `timeout_s`."""
        for name, worker in self._workers.items():
            if name not in self._ending:
                events = selectors.EVENT_READ | (selectors.EVENT_WRITE if worker.channel.has_unsent else 0)
                self._selector.modify(worker.channel, events, name)
        happened: list[Arrived | Lost] = []
        for key, events in self._selector.select(timeout_s):
            name = str(key.data)
            if name in self._ending:
                continue
            if events & selectors.EVENT_WRITE:
                self._flush(name)
            if events & selectors.EVENT_READ:
                happened += self._receive(name)
        happened += self._find_ended()
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
        self._forget(name, worker)
        worker.kill()

    def _forget(self, name: str, worker: WorkerProcess) -> None:
        self._selector.unregister(worker.process if name in self._ending else worker.channel)
        self._ending.pop(name, None)
        self._signs.pop(name, None)
        self._dropped += worker.channel.dropped

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
            # How it ended comes by another way, which may take a moment: nobody waits for it here.
            self._selector.unregister(worker.channel)
            self._selector.register(worker.process, selectors.EVENT_READ, name)
            self._ending[name] = time.monotonic() + EXIT_GRACE_S
            return []
        except ProtocolError as error:
            return [self._replace(name, f"sent garbage ({error})")]
        if frames:
            self._signs[name].hear(self._now)
        return [Arrived(worker=name, message=message, blob=blob) for message, blob in frames]

    def _find_ended(self) -> list[Lost]:
        ended = [
            name
            for name, until in self._ending.items()
            if self._workers[name].process.poll() is not None or time.monotonic() > until
        ]
        return [self._replace(name, self._workers[name].describe_exit()) for name in ended]

    def _find_hung(self) -> list[Lost]:
        now = time.monotonic()
        self._now += min(now - self._looked, MOST_GAP_S)
        self._looked = now
        hung = {}
        for name, signs in self._signs.items():
            if name not in self._ending:
                signs.look(self._now)
                self._report_silence(name, signs)
                if reason := signs.reason_to_replace(self._now):
                    hung[name] = reason
        self.silent = tuple(name for name, signs in self._signs.items() if signs.is_told)
        return [self._replace_hung(name, reason) for name, reason in hung.items()]

    def _report_silence(self, name: str, signs: SignsOfLife) -> None:
        """Tell once that a worker is silent, and once that it no longer is."""
        silent_s = signs.silence_s(self._now)
        if bool(silent_s) == signs.is_told:
            return
        signs.is_told = bool(silent_s)
        if silent_s:
            after_s = signs.replaced_after_s
            log.warning("%s gives no sign of life (stopped?); it is replaced after %g s without one", name, after_s)
            self._tell("worker_silent", worker=name, silent_s=round(silent_s, 1), replaced_after_s=after_s)
        else:
            log.warning("%s gives signs of life again", name)
            self._tell("worker_back", worker=name)

    def _replace_hung(self, name: str, reason: str) -> Lost:
        worker = self._workers[name]
        worker.process.write_stack()
        self._await_stack(worker)
        return self._replace(name, reason)

    def _replace(self, name: str, reason: str) -> Lost:
        """Kill what is left of a worker and start a fresh one, unless it has been lost too often."""
        worker = self._workers[name]
        task = worker.pulse.task
        self._forget(name, worker)
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
