"""One program in the sandbox, seen from the parent: start it, talk to it, end it, know how it ended.

Invariants: a program's process group is dead when `close` returns, and its folder is gone; how it ended comes from the
launcher's report and from this process's own clock, never from what the program wrote.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from ludus.errors import SandboxError
from ludus.sandbox.fork_server import ENVIRONMENT, SandboxForkServer, interpreter, source_root
from ludus.sandbox.inside.removal import remove_tree
from ludus.sandbox.pump import Collected, Pump


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one program. All of them hold whatever the program does."""

    cpu_s: int = 5
    """Processor time of each of its processes."""
    wall_s: float = 15.0
    """From start to end, for all of it."""
    memory_mb: int = 512
    """Address space of each process, and resident memory of all of them together."""
    disk_mb: int = 16
    """All that it writes."""
    processes: int = 8
    """At the same time, threads too. Where the machine has no namespaces, no second process at all."""
    open_files: int = 64
    output_kb: int = 256
    """Kept of what it prints, to each of the two streams; the rest is thrown away."""


Level = Literal["namespaces", "filters"]
Ending = Literal["exit", "signal", "cpu", "wall", "memory", "disk"]

MOST_REPORT_BYTES = 1 << 16
GRACE_S = 5.0
"""The launcher ends a program at its limit; this much later it is ended from here, launcher and all."""
LEAVING_S = 5.0
CLEANINGS = 3
"""A process that is just dying may still put something into a folder while it is removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """What keeps programs in, and where they are forked from."""

    fork_server: SandboxForkServer
    level: Level
    limits: Limits
    packages: bool = False
    """Let programs import what is installed beside ludus, not only the standard library."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a program ended."""

    how: Ending
    code: int = 0
    """Exit code, or the number of the signal."""
    cpu_s: float = 0.0

    @property
    def is_clean(self) -> bool:
        """Whether it ended by itself, with code 0."""
        return self.how == "exit" and self.code == 0

    def __str__(self) -> str:
        if self.how == "exit":
            return f"exited with code {self.code}"
        if self.how == "signal":
            return f"killed by {signal.Signals(self.code).name}"
        return {"wall": "took too long", "cpu": "used too much processor time"}.get(
            self.how, f"used too much {self.how}"
        )


class Program:
    """A running program."""

    def __init__(
        self,
        confinement: Confinement,
        pump: Pump,
        setup: Mapping[str, Any],
        *,
        stdin: bytes = b"",
        channels: Sequence[int] = (),
    ) -> None:
        """Start it. `channels` are descriptors that it gets besides the usual three; they are closed here.

        Raises:
            SandboxError: it cannot be started.
        """
        self.limits = limits = confinement.limits
        self._work_dir = tempfile.mkdtemp(prefix="ludus-sandbox-") if confinement.level == "filters" else ""
        pipes = {name: os.pipe() for name in ("stdin", "stdout", "stderr", "report", "life")}
        setup_fd = _as_file({**setup, **self._setup(confinement)})
        theirs = [pipes["stdin"][0], pipes["stdout"][1], pipes["stderr"][1], setup_fd, pipes["report"][1]]
        theirs += [pipes["life"][0], *channels]
        self.stdout = pump.read(pipes["stdout"][0], limits.output_kb << 10)
        self.stderr = pump.read(pipes["stderr"][0], limits.output_kb << 10)
        self.report: Collected = pump.read(pipes["report"][0], MOST_REPORT_BYTES)
        sending = pump.open(pipes["stdin"][1])
        sending.content += stdin
        sending.is_last = True
        self._life = pipes["life"][1]
        try:
            self._launcher = confinement.fork_server.launch(theirs)
        except SandboxError:
            os.close(self._life)
            self._clean_up()
            raise
        finally:
            for fd in theirs:
                os.close(fd)

    @property
    def has_ended(self) -> bool:
        """Whether all of it has ended and all it wrote is here."""
        return self.stdout.is_closed and self.stderr.is_closed and self.report.is_closed

    def ended(self) -> Ended:
        """How it ended; one that has not is taken to have used up its time.

        Raises:
            SandboxError: the sandbox failed, not the program.
        """
        if not self.report.content:
            if not self.report.is_closed:
                return Ended(how="wall")
            raise SandboxError(f"the sandbox failed: {self._complaint() or 'it ended without a report'}")
        report = json.loads(self.report.content)
        if "broken" in report:
            raise SandboxError(f"the sandbox failed: {report['broken']}")
        if "ended" in report:
            return Ended(how=report["ended"])
        return _ended(report["status"], report["cpu_s"], self.limits)

    def close(self) -> None:
        """End it, with all that it started, and remove what it left."""
        # At the end of this pipe the launcher ends all of it; killed itself, it takes the others with it.
        os.close(self._life)
        if not _has_exited(self._launcher, LEAVING_S):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._launcher, signal.SIGKILL)
            _has_exited(self._launcher, LEAVING_S)
        os.close(self._launcher)
        self._clean_up()

    def _setup(self, confinement: Confinement) -> dict[str, Any]:
        limits = confinement.limits
        folders = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")] if confinement.packages else []
        folders = list(dict.fromkeys(folders))
        home = {"HOME": self._work_dir, "TMPDIR": self._work_dir} if self._work_dir else {}
        return {
            "has_namespaces": confinement.level == "namespaces",
            "readable": [*_interpreter_folders(), *folders],
            "packages": folders,
            "source_root": source_root(),
            "environment": ENVIRONMENT | home,
            "work_dir": self._work_dir,
            "cpu_s": limits.cpu_s,
            "wall_s": limits.wall_s,
            "memory_bytes": limits.memory_mb << 20,
            "disk_bytes": limits.disk_mb << 20,
            "processes": limits.processes,
            "open_files": limits.open_files,
        }

    def _complaint(self) -> str:
        lines = bytes(self.stderr.content).decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def _clean_up(self) -> None:
        for _ in range(CLEANINGS):
            if self._work_dir and os.path.isdir(self._work_dir):
                remove_tree(self._work_dir)


def _ended(status: int, cpu_s: float, limits: Limits) -> Ended:
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return Ended(how="exit", code=code, cpu_s=cpu_s)
    is_by_limit = -code == signal.SIGXCPU or (-code == signal.SIGKILL and cpu_s >= limits.cpu_s * 0.9)
    return Ended(how="cpu" if is_by_limit else "signal", code=-code, cpu_s=cpu_s)


def _as_file(setup: Mapping[str, Any]) -> int:
    """A descriptor from which the launcher reads what to do."""
    fd = os.memfd_create("setup")
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(json.dumps(setup).encode())
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _has_exited(pidfd: int, timeout_s: float) -> bool:
    return bool(select.select([pidfd], [], [], timeout_s)[0])


@cache
def _interpreter_folders() -> tuple[str, ...]:
    """What must be readable for the interpreter to work, besides the system's own folders."""
    folders = (sys.base_prefix, sys.base_exec_prefix, os.path.realpath(sys.base_prefix), interpreter())
    return tuple(dict.fromkeys(folder for folder in folders if not folder.startswith(("/usr/", "/bin/", "/lib"))))
