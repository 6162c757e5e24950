"""Keeps a set of worker processes alive: notices death, silence and hanging, restarts within bounds, leaves no orphans.

Invariant: `poll` never waits longer than its timeout, and every loss of a worker is reported exactly once. What was
in that worker's hands is the caller's to give out again.
"""

from __future__ import annotations

import logging
import selectors
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from ludus.errors import ProtocolError, WorkerError
from ludus.runtime.fork_launcher import ForkLauncher
from ludus.runtime.launcher import LaunchedProcess, Launcher, WorkerSpec
from ludus.runtime.process import WorkerProcess
from ludus.runtime.pulse import NO_TASK
from ludus.runtime.readings import WorkerReading
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
    is_replaced: bool = True
    """Whether a new one under the same name has been started."""
    starts: int = 0
    """Its starts by then, that of the new one included; `Supervisor.read` tells more once it was started again."""


@dataclass(slots=True)
class _Live:
    """A worker that is there now."""

    worker: WorkerProcess
    signs: SignsOfLife
    is_needed: Callable[[], bool]
    """Asked when it is lost: whether it is to be replaced."""
    ends_by: float | None = None
    """It has closed its connection; its exit code is waited for until then."""


@dataclass(slots=True)
class _History:
    """All starts of a worker so far."""

    starts: int = 0
    losses: deque[float] = field(default_factory=deque)
    dropped: int = 0
    """Frames that earlier starts did not take."""

    def recent_losses(self) -> deque[float]:
        """When it was lost within the last minutes."""
        while self.losses and time.monotonic() - self.losses[0] > RESTART_WINDOW_S:
            self.losses.popleft()
        return self.losses

    def take_in(self, ended: WorkerProcess, tell: Callable[..., None]) -> None:
        """Count and tell what came again, or from an earlier start."""
        if dropped := ended.channel.dropped:
            self.dropped += dropped
            log.warning("%s: %d late frames were refused", ended.spec.name, dropped)
            tell("refused_late", worker=ended.spec.name, frames=dropped)


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
        """`tell` gets `worker_silent`, `worker_back` and `refused_late`, with the worker's name and more as keywords.

        Workers are forked on this machine unless a `launcher` starts them elsewhere.
        """
        self._log_dir = log_dir
        self._launcher = launcher or ForkLauncher()
        self._max_restarts = max_restarts
        self._tell = tell
        self._live: dict[str, _Live] = {}
        self._histories: defaultdict[str, _History] = defaultdict(_History)
        self._selector = selectors.DefaultSelector()
        self._now, self._looked = 0.0, time.monotonic()
        self.silent: tuple[str, ...] = ()
        """Workers that give no sign of life. For any thread."""

    def start(self, spec: WorkerSpec, *, is_needed: Callable[[], bool] = lambda: True) -> None:
        """Start a worker; its log is `<name>.log` in the log folder. One that is lost and not `is_needed` is gone."""
        history = self._histories[spec.name]
        history.starts += 1
        log_path = self._log_dir / f"{spec.name}.log"
        worker = WorkerProcess(spec, log_path, incarnation=history.starts, launcher=self._launcher)
        self._live[spec.name] = _Live(worker, SignsOfLife(worker, self._now), is_needed)
        self._selector.register(worker.channel, selectors.EVENT_READ, spec.name)

    def may_start(self, name: str) -> bool:
        """Whether a worker of this name has not been lost too often of late."""
        return len(self._histories[name].recent_losses()) <= self._max_restarts

    def process(self, worker: str) -> LaunchedProcess:
        """The process that a worker is now."""
        return self._live[worker].worker.process

    def cpu_s(self, workers: Iterable[str]) -> dict[str, float]:
        """CPU seconds that workers have used since they were started, by name and incarnation. For any thread."""
        live = {name: self._live.get(name) for name in workers}
        spent = {
            f"{name}#{self._histories[name].starts}": each.worker.process.cpu_s()
            for name, each in live.items()
            if each is not None
        }
        return {name: seconds for name, seconds in spent.items() if seconds is not None}

    def read(self) -> tuple[WorkerReading, ...]:
        """All workers as they are now. For any thread."""
        return tuple(
            WorkerReading(
                name=name,
                node=live.worker.process.node,
                starts=self._histories[name].starts,
                cpu_s=live.worker.process.cpu_s(),
                is_silent=name in self.silent,
                node_load=live.worker.process.node_load,
            )
            for name, live in list(self._live.items())
        )

    @property
    def dropped(self) -> int:
        """Frames that were not taken: repeated, or of an earlier incarnation."""
        earlier = sum(history.dropped for history in self._histories.values())
        return earlier + sum(live.worker.channel.dropped for live in self._live.values())

    @property
    def ticks(self) -> dict[str, int]:
        """How often each worker has said that it gets on with its work, or that it waits for a place."""
        return {name: live.worker.pulse.ticks + live.worker.pulse.waits for name, live in self._live.items()}

    def send(self, worker: str, message: msgspec.Struct, blob: bytes | memoryview = b"") -> None:
        """Queue a message. A worker that is gone is reported by the next poll, not here."""
        if (live := self._live.get(worker)) is None:
            return  # it has just been lost for good, which whoever sends has yet to be told
        live.signs.expect_answer(self._now)
        try:
            live.worker.channel.send(message, blob)
        except (BrokenPipeError, ConnectionError):
            log.debug("%s is gone; its message is dropped", worker)

    def poll(self, timeout_s: float) -> list[Arrived | Lost]:
        """What happened: messages that came, workers that were lost. Waits at most `timeout_s`."""
        for name, live in self._live.items():
            if live.ends_by is None:
                channel = live.worker.channel
                events = selectors.EVENT_READ | (selectors.EVENT_WRITE if channel.has_unsent else 0)
                self._selector.modify(channel, events, name)
        happened: list[Arrived | Lost] = []
        for key, events in self._selector.select(timeout_s):
            name = str(key.data)
            if self._live[name].ends_by is not None:
                continue
            if events & selectors.EVENT_WRITE:
                self._flush(name)
            if events & selectors.EVENT_READ:
                happened += self._receive(name)
        happened += self._find_ended()
        happened += self._find_hung()
        self._launcher.look()
        return happened

    def stop(self, farewell: msgspec.Struct | None = None, grace_s: float = 5.0) -> None:
        """End all workers: ask first if there is a farewell to send, then make sure."""
        if farewell is not None:
            for name in self._live:
                self.send(name, farewell)
        end = time.monotonic() + (grace_s if farewell is not None else 0.0)
        for worker in (live.worker for live in self._live.values()):
            while worker.process.poll() is None and time.monotonic() < end:
                self._selector.select(0.02)
                try:
                    worker.channel.receive()
                    worker.channel.flush()
                except (EOFError, ConnectionError, ProtocolError):
                    time.sleep(0.01)
            worker.kill()
            self._histories[worker.spec.name].take_in(worker, self._tell)
        self._live.clear()
        self._selector.close()
        self._launcher.close()

    def dismiss(self, name: str) -> None:
        """End one worker whose work is done, or that is to be started anew; nothing if it was lost for good."""
        if name in self._live:
            self._end(name)

    def _end(self, name: str) -> WorkerProcess:
        """Kill what is left of a worker and forget it."""
        live = self._live.pop(name)
        worker = live.worker
        self._selector.unregister(worker.channel if live.ends_by is None else worker.process)
        worker.kill()
        self._histories[name].take_in(worker, self._tell)
        return worker

    def _flush(self, name: str) -> None:
        try:
            self._live[name].worker.channel.flush()
        except (BrokenPipeError, ConnectionError):
            log.debug("%s took no more data", name)

    def _receive(self, name: str) -> list[Arrived | Lost]:
        live = self._live[name]
        worker = live.worker
        try:
            frames = worker.channel.receive()
        except EOFError:
            # How it ended comes by another way, which may take a moment: nobody waits for it here.
            self._selector.unregister(worker.channel)
            self._selector.register(worker.process, selectors.EVENT_READ, name)
            live.ends_by = time.monotonic() + EXIT_GRACE_S
            return []
        except ProtocolError as error:
            return [self._replace(name, f"sent garbage ({error})")]
        if frames:
            live.signs.hear(self._now)
        return [Arrived(worker=name, message=message, blob=blob) for message, blob in frames]

    def _find_ended(self) -> list[Lost]:
        ended = {
            name: live.worker.describe_exit()
            for name, live in self._live.items()
            if live.ends_by is not None and (live.worker.process.poll() is not None or time.monotonic() > live.ends_by)
        }
        return [self._replace(name, reason) for name, reason in ended.items()]

    def _find_hung(self) -> list[Lost]:
        now = time.monotonic()
        self._now += min(now - self._looked, MOST_GAP_S)
        self._looked = now
        hung = {}
        for name, live in self._live.items():
            if live.ends_by is None:
                live.signs.look(self._now)
                self._report_silence(name, live.signs)
                if reason := live.signs.reason_to_replace(self._now):
                    hung[name] = reason
        self.silent = tuple(name for name, live in self._live.items() if live.signs.is_told)
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
        worker = self._live[name].worker
        worker.process.write_stack()
        _await_stack(worker)
        return self._replace(name, reason)

    def _replace(self, name: str, reason: str) -> Lost:
        """Kill what is left of a worker and start a fresh one, unless it has been lost too often."""
        live, history = self._live[name], self._histories[name]
        task, is_replaced = live.worker.pulse.task, live.is_needed()
        worker = self._end(name)
        lost = Lost(
            worker=name,
            reason=reason,
            task=None if task == NO_TASK else task,
            log_tail=worker.log_tail(40),
            is_replaced=is_replaced,
            starts=history.starts + is_replaced,
        )
        log.warning("%s %s; task in hand: %s", name, reason, lost.task)
        history.losses.append(time.monotonic())
        _check_losses(lost, history.recent_losses(), self._max_restarts)
        if lost.is_replaced:
            self.start(worker.spec, is_needed=live.is_needed)
        return lost


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


def _check_losses(lost: Lost, losses: deque[float], most: int) -> None:
    """Raise WorkerError when a worker that is needed was lost too often."""
    if lost.is_replaced and len(losses) > most:
        raise WorkerError(
            f"{lost.worker} {lost.reason}; it was lost {len(losses)} times within "
            f"{RESTART_WINDOW_S / 60:.0f} minutes, more than runtime.max_restarts = {most}. "
            f"Its last lines:\n{lost.log_tail}"
        )
