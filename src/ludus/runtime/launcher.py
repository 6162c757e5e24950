"""How a worker comes into being, on whatever machine: what a supervisor asks of a launcher.

A launcher gets the worker's ends of a connection, a page for signs of life, a log and a life pipe, and has a process
use them. The supervisor keeps the other ends, so it need not know where the process runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ludus.runtime.needs import Needs
from ludus.runtime.readings import NodeReading


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    """What to run as a worker and how to judge it."""

    name: str
    """Such as `explorer-0`; used in logs and errors."""
    module: str
    """Module with a `main`."""
    replies: object
    """Union of message structs that the worker may send."""
    threads: int = 1
    devices: int = 1
    """CPU devices of JAX, which share the threads."""
    stall_s: float = 60.0
    """Seconds without a tick, while busy, after which the worker counts as hung."""
    imports: tuple[str, ...] = ()
    """Modules that the worker will need soon; those that it shares with other workers are imported once for all."""
    needs_run_disk: bool = False
    """Whether it works on files that only the loop's machine has; no launcher starts it elsewhere."""
    needs: Needs = field(default_factory=Needs)
    """What it takes of the node that it runs on, where there are several."""


class WorkerEnds(NamedTuple):
    """Descriptors for a worker; a launcher that keeps one duplicates it."""

    log: int
    socket: int
    pulse: int
    life: int
    """Readable as soon as the worker is no longer wanted."""


class LaunchedProcess(Protocol):
    """The process of one worker. For any thread."""

    @property
    def has_begun(self) -> bool:
        """Whether there is a process."""

    @property
    def node(self) -> str:
        """The name of the node that it runs on; empty on the loop's machine, and before it has one."""

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it lives."""

    def fileno(self) -> int:
        """Readable when there is something new to tell."""

    def cpu_s(self) -> float | None:
        """CPU seconds that it has used; None where that is not known."""

    @property
    def node_load(self) -> float | None:
        """The load of its node for each core; None where nobody tells."""

    def write_stack(self) -> None:
        """Have it write its stacks to its log. It may be too stuck to do so."""

    def kill(self) -> None:
        """Begin to end it, with everything it has started."""

    def wait(self, timeout: float) -> int:
        """The exit code, once there is one. Raises `subprocess.TimeoutExpired` when there is none in time."""

    def close(self) -> None:
        """Give descriptors back; what was told is still known."""


class Launcher(Protocol):
    """Starts workers."""

    def open(self) -> None:
        """Called before a run begins. Raises WorkerError if workers could not be started later."""

    def node_cpus(self) -> tuple[float, ...]:
        """CPUs of each machine that workers take CPUs of; nothing where they share this machine."""

    def launch(self, spec: WorkerSpec, incarnation: int, ends: WorkerEnds) -> LaunchedProcess:
        """Have a worker started; does not wait for it. Raises WorkerError if none can be."""

    @property
    def has_spare(self) -> bool:
        """Whether there is room for a worker more than are needed, as far as is known."""

    def nodes(self) -> tuple[NodeReading, ...]:
        """The nodes that workers may run on, as far as is known; nothing where they share this machine."""

    def transfers(self) -> dict[str, float]:
        """What travelled to nodes, as metrics by name; nothing where nothing travels."""

    def look(self) -> None:
        """Take in what is told of workers elsewhere. Called at every poll; never waits."""

    def close(self) -> None:
        """Called once, when all workers have ended and no more will be started."""
