"""Workers as processes of this machine, forked by a server that has imported what they need."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from ludus.errors import WorkerError
from ludus.runtime.launcher import WorkerEnds, WorkerSpec
from ludus.runtime.readings import NodeReading
from ludus.runtime.reported_process import ReportedProcess
from ludus.runtime.threads import limit_threads
from ludus.runtime.worker_server import ForkOrder, fork_worker

_TICKS_PER_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class ForkLauncher:
    """Has workers forked on this machine, with the environment and the folder of the moment."""

    def __init__(self, run: Path | None = None, *, files: Path | None = None) -> None:
        """`run` is the directory of the run whose files they find, if they work for one.

        `files` is the socket of whoever brings files to and from that directory, where it is not the run's own.
        """
        self._run, self._files = run, files

    def open(self) -> None:
        """Nothing: this machine is there."""

    def node_cpus(self) -> tuple[float, ...]:
        """Nothing: workers share this machine."""
        return ()

    def launch(self, spec: WorkerSpec, incarnation: int, ends: WorkerEnds) -> ForkedProcess:
        """Have a worker forked; does not wait for it."""
        environment = dict(os.environ)
        limit_threads(spec.threads, environment, devices=spec.devices)
        order = ForkOrder(
            module=spec.module,
            environment=environment,
            directory=os.getcwd(),
            threads=spec.threads,
            imports=[*spec.imports, spec.module],
            incarnation=incarnation,
            run="" if self._run is None else str(self._run),
            files="" if self._files is None else str(self._files),
        )
        report_read, report = os.pipe()
        try:
            fork_worker(order, (*ends, report))
        except WorkerError:
            os.close(report_read)
            raise
        finally:
            os.close(report)
        return ForkedProcess(report_read)

    @property
    def has_spare(self) -> bool:
        """Never: this machine has the workers that it has."""
        return False

    def nodes(self) -> tuple[NodeReading, ...]:
        """Nothing: workers share this machine."""
        return ()

    def transfers(self) -> dict[str, float]:
        """Nothing travels."""
        return {}

    def look(self) -> None:
        """Nothing: the kernel tells of workers here."""

    def close(self) -> None:
        """Nothing: the fork server is this process's own, and other launchers use it."""


class ForkedProcess(ReportedProcess):
    """A child of the fork server, which reports on it. For any thread."""

    @property
    def node(self) -> str:
        """Empty: it runs on this machine."""
        return ""

    def cpu_s(self) -> float | None:
        """CPU seconds that it has used so far, as the kernel counts them."""
        return process_cpu_s(self.pid) if self.has_begun else None

    @property
    def node_load(self) -> float | None:
        """Not told: whoever asks is on the same machine."""
        return None

    def write_stack(self) -> None:
        """Have the worker write its stacks to its log (it may be too stuck to do so)."""
        if self.has_begun and self.poll() is None:
            os.kill(self.pid, signal.SIGUSR1)

    def kill(self) -> None:
        """Kill its process group. One still to be forked ends by itself when its life pipe is closed."""
        if self.has_begun:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)


def process_cpu_s(pid: int) -> float | None:
    """CPU seconds that a process of this machine has used; None where that cannot be told."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rsplit(b")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
    except (OSError, IndexError, ValueError):
        return None
