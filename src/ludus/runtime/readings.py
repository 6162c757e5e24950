"""What is known of workers and of the nodes that they run on, at one moment: for status, dashboards and trackers.

Invariant: reading never waits for a worker or a node; what was told last is what is shown.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

WINDOW_S = 1.0
"""Load is that of the last second, at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReading:
    """One worker."""

    name: str
    node: str = ""
    """Empty on the loop's machine, and before it has a node."""
    starts: int = 1
    cpu_s: float | None = None
    """CPU seconds since its last start; None where nobody knows."""
    is_silent: bool = False
    node_load: float | None = None
    """Of its node, as told from there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReading:
    """One node of a cluster."""

    name: str
    cpus: float = 0.0
    free_cpus: float = 0.0
    """That nobody has set aside."""
    gpus: float = 0.0
    free_gpus: float = 0.0
    load: float | None = None
    """Processes that run or wait to, for each core; None on a node without a worker of ours."""


def with_loads(nodes: Iterable[NodeReading], workers: Iterable[WorkerReading]) -> tuple[NodeReading, ...]:
    """The nodes, with the load that workers on them tell of."""
    told = {worker.node: worker.node_load for worker in workers if worker.node_load is not None}
    return tuple(replace(node, load=told.get(node.name)) for node in nodes)


class LoadMeter:
    """CPU seconds a second of each worker, from two readings. Belongs to one thread at a time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._past: deque[tuple[float, Mapping[tuple[str, int], float]]] = deque()

    def update(self, workers: Sequence[WorkerReading]) -> dict[str, float]:
        """The load of each worker since it was looked at a second ago or more; nothing of one that has just begun."""
        now, used = self._clock(), {(each.name, each.starts): each.cpu_s for each in workers}
        known = {key: cpu_s for key, cpu_s in used.items() if cpu_s is not None}
        while len(self._past) > 1 and now - self._past[1][0] >= WINDOW_S:
            self._past.popleft()
        before_at, before = self._past[0] if self._past else (now, known)
        if not self._past or now > self._past[-1][0]:
            self._past.append((now, known))
        if now - before_at <= 0:
            return {}
        return {
            name: max(cpu_s - before[name, start], 0.0) / (now - before_at)
            for (name, start), cpu_s in known.items()
            if (name, start) in before
        }
