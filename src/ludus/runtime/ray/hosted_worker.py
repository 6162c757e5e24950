"""A worker on a node, as its host has it: a child process whose stream, log and pulse are told to whoever asks.

The worker module is the one that runs on the loop's machine, started by the same launcher. Invariant: it ends with the
host, and when nobody has asked for it for long: behind a cut link nobody wants what it plays.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ludus.errors import StorageError
from ludus.runtime.fork_launcher import ForkedProcess, ForkLauncher
from ludus.runtime.launcher import WorkerEnds, WorkerSpec
from ludus.runtime.pulse import NO_TASK, NODE_LOAD, Pulse
from ludus.runtime.ray.file_service import FileService
from ludus.runtime.ray.messages import (
    PIECE_BYTES,
    WAITING_BYTES,
    FileAnswer,
    FileWant,
    Launch,
    Put,
    PutDone,
    Take,
    Taken,
)
from ludus.runtime.ray.node_folder import NodeFolder
from ludus.runtime.ray.streams import FrameReader, SentBytes
from ludus.runtime.remote_files import ANSWER_S

log = logging.getLogger(__name__)

LONG_POLL_S = 0.25
"""A call that asks for news waits so long for some: often enough for signs of life."""
FORSAKEN_S = 10.0
"""When nobody has asked for so long, the node's log says so once, with what waits to be fetched."""
ABANDONED_S = 120.0
"""When nobody has asked for so long, the worker is ended."""
LOG_BYTES = 256 * 2**10
LOOK_S = 0.1


class WakePipe:
    """Ends the wait of a thread that waits for descriptors."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)

    def fileno(self) -> int:
        """Readable when the thread is to look."""
        return self._read

    def wake(self) -> None:
        """Have the thread look. Never waits: a full pipe wakes as well."""
        with suppress(BlockingIOError):
            os.write(self._write, b"x")

    def clear(self) -> None:
        """The thread looks."""
        os.read(self._read, 4096)


@dataclass(slots=True, kw_only=True)
class _Question:
    """What is asked of the run's files now, until it is answered."""

    want: FileWant | None = None
    answer: FileAnswer | None = None

    def settle(self, answer: FileAnswer | None) -> None:
        """Take an answer, if it is the one to this; it may come twice."""
        if self.want is not None and answer is not None and answer.number == self.want.number:
            self.answer, self.want = answer, None


class _Callers:
    """Whether anybody still asks for a worker."""

    def __init__(self, name: str) -> None:
        self._name, self._is_told = name, False
        self._asked = time.monotonic()

    def note(self) -> None:
        """Somebody asks."""
        self._asked = time.monotonic()

    def are_gone(self, waiting_bytes: int) -> bool:
        """Whether nobody has asked for too long. Before that the node's log says what waits to be fetched."""
        silent_s = time.monotonic() - self._asked
        if silent_s > FORSAKEN_S and not self._is_told:
            log.warning("nobody asks for %s any more; %d bytes that it has said wait", self._name, waiting_bytes)
        self._is_told = silent_s > FORSAKEN_S
        return silent_s > ABANDONED_S


class HostedWorker:
    """One worker and the threads that serve its connection and its files. Its methods are for any thread."""

    def __init__(self, order: Launch) -> None:
        self._changed = threading.Condition()
        self._incoming, self._outgoing = SentBytes(), SentBytes()
        """Bytes for the worker that its socket has not taken, and of the worker that nobody has fetched."""
        self._has_ended_stream = False
        self._question = _Question()
        self._callers = _Callers(order.name)
        self._folder, self._pulse = NodeFolder(), Pulse()
        self._pulse.working_on(NO_TASK)
        self._files = FileService(self._folder.socket, self._bring, order.line) if order.files.run else None
        self._waker = WakePipe()
        ours, theirs = socket.socketpair()
        self._process, self._life = self._start(order, theirs)
        threading.Thread(target=self._relay, args=(ours,), name="relay", daemon=True).start()

    def _start(self, order: Launch, theirs: socket.socket) -> tuple[ForkedProcess, int]:
        spec = WorkerSpec(
            name=order.name,
            module=order.module,
            replies=None,
            threads=order.threads,
            devices=order.devices,
            imports=tuple(order.imports),
        )
        launcher = ForkLauncher(self._folder.run, files=self._folder.socket) if order.files.run else ForkLauncher()
        life, ours = os.pipe()
        try:
            with self._folder.log.open("ab") as log, theirs:
                ends = WorkerEnds(log=log.fileno(), socket=theirs.fileno(), pulse=self._pulse.fd, life=life)
                return launcher.launch(spec, order.incarnation, ends), ours
        finally:
            os.close(life)

    def put(self, put: Put) -> PutDone:
        """Take bytes for the worker, as far as there is room; those that came before are passed over."""
        with self._changed:
            have = self._incoming.end
            if put.offset <= have and len(self._incoming) < WAITING_BYTES:
                self._incoming.add(put.data[have - put.offset :])
                self._waker.wake()
            return PutDone(have=self._incoming.end)

    def take(self, take: Take) -> Taken:
        """Tell what is new; waits a moment for something."""
        with self._changed:
            self._callers.note()
            self._outgoing.drop_until(take.have)
            self._question.settle(take.answer)
            self._changed.notify_all()
            self._waker.wake()
            self._changed.wait_for(lambda: self._has_news(take), LONG_POLL_S)
            return self._tell(take)

    def write_stack(self) -> None:
        """Have the worker write its stacks to its log."""
        self._process.write_stack()

    def kill(self) -> None:
        """Kill it with all it has started."""
        self._process.kill()

    def close(self) -> None:
        """End it for good, and leave nothing on the node."""
        self._process.kill()
        if self._files is not None:
            self._files.close()
        self._folder.remove()

    def _has_news(self, take: Take) -> bool:
        return bool((take.most and len(self._outgoing)) or self._question.want or self._log_size() > take.log_have) or (
            self._has_ended_stream and self._process.poll() is not None
        )

    def _tell(self, take: Take) -> Taken:
        # First how it ended, then its log: what it wrote is there when it has ended.
        code = self._process.poll() if self._has_ended_stream else None
        log, data = self._read_log(take.log_have), self._outgoing.piece(min(take.most, PIECE_BYTES))
        is_all = len(data) == len(self._outgoing)
        self._pulse.words[NODE_LOAD] = 1 + round(1000 * os.getloadavg()[0] / (os.cpu_count() or 1))
        return Taken(
            data=data,
            log=log,
            pulse=[int(word) for word in self._pulse.words],
            cpu_ms=int(1000 * (self._process.cpu_s() or 0.0)),
            pid=self._process.pid if self._process.has_begun else 0,
            is_closed=self._has_ended_stream and is_all,
            exit=code if is_all and len(log) < LOG_BYTES else None,
            want=self._question.want,
        )

    def _log_size(self) -> int:
        try:
            return self._folder.log.stat().st_size
        except OSError:
            return 0

    def _read_log(self, start: int) -> bytes:
        return _read(self._folder.log, start, LOG_BYTES)

    def _bring(self, want: FileWant) -> FileAnswer:
        """Ask the loop's side; called by the thread that serves files."""
        with self._changed:
            question = self._question = _Question(want=want)
            self._changed.notify_all()
            self._changed.wait_for(lambda: question.answer is not None, ANSWER_S)
            if question.answer is None:
                raise StorageError(f"{want.name}: no answer within {ANSWER_S:g} s")
            return question.answer

    def _relay(self, sock: socket.socket) -> None:
        """Carry bytes between the worker's socket and the two streams until both the worker and its socket are gone."""
        reader = FrameReader(sock)
        while not self._has_ended_stream:
            if self._callers.are_gone(len(self._outgoing)):
                self._process.kill()
            readers = [self._waker.fileno(), *([sock.fileno()] if len(self._outgoing) < WAITING_BYTES else [])]
            writers = [sock.fileno()] if len(self._incoming) else []
            readable, writable, _ = select.select(readers, writers, [], LOOK_S)
            if self._waker.fileno() in readable:
                self._waker.clear()
            if writable:
                self._write(sock)
            if sock.fileno() in readable:
                self._read(reader)
        sock.close()

    def _read(self, reader: FrameReader) -> None:
        data, is_over = b"", False
        try:
            data = reader.read()
        except EOFError:
            is_over = True
        with self._changed:
            self._outgoing.add(data)
            self._has_ended_stream = is_over
            self._changed.notify_all()

    def _write(self, sock: socket.socket) -> None:
        with self._changed, suppress(BlockingIOError, ConnectionError):
            sent = sock.send(self._incoming.piece(PIECE_BYTES))
            self._incoming.drop_until(self._incoming.end - len(self._incoming) + sent)


def _read(path: Path, start: int, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(start)
            return file.read(most)
    except OSError:
        return b""
