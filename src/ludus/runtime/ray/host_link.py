"""One worker as the connection has it: between the descriptors that the loop gave and the host on a node.

Two threads carry bytes, one each way; calls that fail are repeated by offset, so that nothing is lost or doubled.
Invariant: how the worker ended is reported once, within seconds of a kill, whether or not its node answers.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from ludus.errors import WorkerError
from ludus.runtime.pulse import CPU_MS, Pulse
from ludus.runtime.ray.file_server import HostFiles
from ludus.runtime.ray.messages import (
    PIECE_BYTES,
    WAITING_BYTES,
    FileAnswer,
    FromConnection,
    Launch,
    Placed,
    Put,
    PutDone,
    Take,
    Taken,
    Waits,
)
from ludus.runtime.ray.placing import Placing, leaving
from ludus.runtime.ray.streams import FrameReader
from ludus.runtime.worker_server import REPORT

log = logging.getLogger(__name__)

TELL_WAIT_S = 8.0
"""A worker that has not begun after so long is told of."""
REPLY_S = 10.0
UNREACHABLE_S = 30.0
"""A host that answers no call for so long is lost."""
KILL_S = 3.0
"""After so long a killed worker counts as ended, though its node has not said so."""
LOOK_S = 0.2


class _Ends(NamedTuple):
    """Descriptors of the worker's that stay as they are."""

    log: int
    life: int
    report: int


class HostLink:
    """Starts a host for a worker and relays until either is gone."""

    def __init__(
        self,
        launch: Launch,
        fds: list[int],
        files: HostFiles,
        placing: Placing,
        tell: Callable[[FromConnection], None] = lambda message: None,
    ) -> None:
        """`tell` gets what the loop is to know, such as the node it runs on."""
        self._launch, self._files, self._placing, self._tell = launch, files, placing, tell
        launch.line = files.line
        log_file, sock, pulse, life, report = fds
        self._ends = _Ends(log_file, life, report)
        self._socket, self._pulse = socket.socket(fileno=sock), Pulse(pulse)
        self._host: Any = None
        self._node = ""
        self._lock, self._pid = threading.Lock(), 0
        self.is_over = False
        threading.Thread(target=self._run, name=launch.name, daemon=True).start()

    @property
    def is_placing(self) -> bool:
        """Whether it has no node yet."""
        return not (self._node or self.is_over)

    def signal(self, *, is_kill: bool) -> None:
        """Kill the worker, or have it write its stacks; does not wait."""
        host = self._host
        if host is not None:
            (host.kill if is_kill else host.write_stack).remote()
        if is_kill:
            threading.Timer(KILL_S, self._end, args=(-signal.SIGKILL,)).start()

    def abandon(self) -> None:
        """End the host; nobody listens any more."""
        import ray

        if self._host is not None:
            with leaving():
                ray.kill(self._host)

    def _run(self) -> None:
        """The thread that takes: places the host and tells the loop what comes from it."""
        code, feeding = 1, threading.Thread(target=self._feed, name=f"{self._launch.name} in", daemon=True)
        try:
            self._place()
            code = -signal.SIGKILL
            feeding.start()
            code = self._draw()
        except Exception as error:  # whatever Ray raises costs this worker, not the others
            self._note(error)
        self._end(code)
        self._release_host()
        if feeding.ident is not None:
            feeding.join()
        self._close()

    def _place(self) -> None:
        """Have a host on a node; while there is none, say so, and show life in the worker's place."""
        import ray

        self._host = self._placing.make_host(self._launch)
        begun, is_told = time.monotonic(), False
        while not self._is_unwanted():
            try:
                answer = self._call(self._host.node, b"", reply_s=TELL_WAIT_S, within_s=0.0)
            except (ray.exceptions.GetTimeoutError, ray.exceptions.ActorUnavailableError):
                reason = self._placing.describe_wait(self._launch)
                if time.monotonic() - begun > self._placing.patience_s:
                    raise WorkerError(f"after {self._placing.patience_s:g} s {reason}") from None
                self._pulse.wait()
                if not is_told:
                    is_told = True
                    self._tell(Waits(reason=reason, number=self._launch.number))
            else:
                self._node = self._files.node = self._placing.name_of(answer.decode())
                self._placing.settled(self._launch.name, answer.decode())
                self._tell(Placed(number=self._launch.number, node=self._node))
                break

    def _call(self, method: Any, payload: bytes, *, reply_s: float = REPLY_S, within_s: float = UNREACHABLE_S) -> bytes:
        """Call until there is an answer; all calls may be repeated."""
        import ray

        end = time.monotonic() + within_s
        while True:
            try:
                return bytes(ray.get(method.remote(payload), timeout=reply_s))
            except (ray.exceptions.ActorUnavailableError, ray.exceptions.GetTimeoutError) as error:
                if self._is_unwanted() or time.monotonic() > end:
                    raise
                log.info("%s: a call was not answered (%s); it is repeated", self._launch.name, type(error).__name__)
                time.sleep(LOOK_S)

    def _feed(self) -> None:
        """The thread that puts: from the loop's socket to the host."""
        reader, sent = FrameReader(self._socket), 0
        try:
            while not self.is_over:
                if not select.select([reader], [], [], LOOK_S)[0]:
                    continue
                waiting = memoryview(reader.read())
                while len(waiting) and not self.is_over:
                    piece = Put(offset=sent, data=bytes(waiting[:PIECE_BYTES]))
                    reply = self._call(self._host.put, msgspec.msgpack.encode(piece))
                    have = msgspec.msgpack.decode(reply, type=PutDone).have
                    if have == sent:
                        time.sleep(LOOK_S)  # it has no room: its worker is busy
                    waiting, sent = waiting[have - sent :], have
        except EOFError:
            log.debug("%s: the loop sends no more", self._launch.name)
        except Exception as error:  # the calls of the thread that takes may be answered all the same
            self._note(error)
            self._end(-signal.SIGKILL)

    def _draw(self) -> int:
        """Tell the loop what the worker says until it has ended; returns its exit code."""
        have = log_have = 0
        answer: FileAnswer | None = None
        waiting: deque[memoryview] = deque()
        is_closed = False
        while not self._is_unwanted():
            most = max(WAITING_BYTES - sum(map(len, waiting)), 0)
            request = Take(have=have, log_have=log_have, most=most, answer=answer)
            taken = msgspec.msgpack.decode(self._call(self._host.take, msgspec.msgpack.encode(request)), type=Taken)
            have, log_have = have + len(taken.data), log_have + len(taken.log)
            self._show(taken)
            waiting.extend([memoryview(taken.data)] if taken.data else [])
            self._deliver(waiting)
            if taken.want is not None and (answer is None or answer.number != taken.want.number):
                answer = self._files.answer(taken.want)
            if taken.is_closed and not waiting and not is_closed:
                is_closed = True
                if taken.exit is None:
                    self._hang_up()
            if taken.exit is not None and not waiting:
                return taken.exit
        return -signal.SIGKILL

    def _show(self, taken: Taken) -> None:
        """Log, pulse and process id, where the loop reads them."""
        left = memoryview(taken.log)
        while left:
            left = left[os.write(self._ends.log, left) :]
        words = [*taken.pulse]
        words[CPU_MS] = taken.cpu_ms
        self._pulse.words[:] = words
        with self._lock:
            if taken.pid and not self._pid and not self.is_over:
                self._pid = taken.pid
                self._write_report(taken.pid)

    def _deliver(self, waiting: deque[memoryview]) -> None:
        """Send what goes without waiting long for the loop."""
        while waiting and select.select([], [self._socket], [], LOOK_S)[1]:
            try:
                sent = self._socket.send(waiting[0])
            except BlockingIOError:
                continue
            except OSError:  # the loop has closed its end
                waiting.clear()
                return
            waiting[0] = waiting[0][sent:]
            if not waiting[0]:
                waiting.popleft()

    def _is_unwanted(self) -> bool:
        """Whether the loop has closed its end of the life pipe, or counts the worker as ended."""
        return self.is_over or bool(select.select([self._ends.life], [], [], 0.0)[0])

    def _note(self, error: Exception) -> None:
        """Say in the worker's log, which the loop shows, why it was lost."""
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        said = next((line for line in lines if line.startswith("The actor died because")), lines[0])
        with suppress(OSError):
            os.write(self._ends.log, f"ludus: the host of {self._launch.name} was lost: {said}\n".encode())
        log.warning("%s: %s", self._launch.name, said)

    def _end(self, code: int) -> None:
        """Report how it ended, once."""
        with self._lock:
            if self.is_over:
                return
            self.is_over = True
            if not self._pid:
                self._write_report(0)
            self._write_report(code)
            os.close(self._ends.report)
        self._hang_up()

    def _write_report(self, word: int) -> None:
        with suppress(OSError):
            os.write(self._ends.report, REPORT.pack(word))

    def _hang_up(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _release_host(self) -> None:
        """The node keeps nothing; then the actor goes."""
        import ray

        if self._host is not None:
            with leaving():
                ray.get(self._host.close.remote(), timeout=KILL_S)
            self.abandon()

    def _close(self) -> None:
        self._files.close()
        os.close(self._ends.log)
        os.close(self._ends.life)
        self._pulse.close()
        self._socket.close()
