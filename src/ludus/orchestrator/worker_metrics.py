"""What became of workers, and how busy they and their nodes are, as metrics.

Invariant: a local run that loses nothing emits nothing of this, so that its metrics stay as they are.
"""

from __future__ import annotations

from collections import Counter

from ludus.runtime import Launcher, LoadMeter, Supervisor, with_loads

MOST_NAMED = 64
"""Workers, and nodes, that have metrics of their own; the others are in the means alone."""


class WorkerMetrics:
    """Of one start of a run."""

    def __init__(self, supervisor: Supervisor, launcher: Launcher) -> None:
        self._supervisor, self._launcher = supervisor, launcher
        self._meter, self._restarts = LoadMeter(), 0

    def take(self, *, requeued: int, late: int) -> dict[str, float]:
        """As they are now. `requeued` episodes were given out again, `late` ones came when nobody waited for them."""
        workers, nodes = self._supervisor.read(), self._launcher.nodes()
        self._restarts = max(self._restarts, sum(worker.starts - 1 for worker in workers))
        refused = self._supervisor.dropped + late
        counts = {"restarts": self._restarts, "requeued": requeued, "refused_late": refused}
        if not nodes:
            return {f"runtime/{name}": float(count) for name, count in counts.items() if count}
        loads = self._meter.update(workers)
        values = {
            **{f"runtime/{name}": float(count) for name, count in counts.items()},
            **self._launcher.transfers(),
            "runtime/workers": float(len(workers)),
            "runtime/nodes": float(len(nodes)),
        }
        if loads:
            values["runtime/worker_load"] = sum(loads.values()) / len(loads)
        values |= {f"runtime/workers/{name}/load": load for name, load in list(loads.items())[:MOST_NAMED]}
        here = Counter(worker.node for worker in workers)
        for node in with_loads(nodes, workers)[:MOST_NAMED]:
            values[f"runtime/nodes/{node.name}/workers"] = float(here[node.name])
            if node.load is not None:
                values[f"runtime/nodes/{node.name}/load"] = node.load
        return values
