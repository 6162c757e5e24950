"""What the endpoints of a run have cost, told by explorers and kept over all starts."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

RECENT = 64
"""Messages over which the judge's mean score is taken."""


class EndpointBill:
    """What the endpoints of a run have cost, over all explorers and starts; counts by name: `endpoints/gpt/cost`.

    Invariant: what an explorer told is counted once; an explorer that is replaced begins with what the one before it
    has spent, so a limit holds for the run and not for a process. What a killed explorer had not told is not known.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._totals: dict[str, float] = {}
        self._earlier: dict[str, float] = {}
        """Totals before this start; its costs are divided among the explorers."""
        self._by_worker: dict[str, dict[str, float]] = {}
        self._verdicts: deque[tuple[float, float]] = deque(maxlen=RECENT)

    def add(self, worker: str, counts: Mapping[str, float]) -> None:
        """Take what an explorer has counted since it last told."""
        mine = self._by_worker.setdefault(worker, {})
        for name, value in counts.items():
            self._totals[name] = self._totals.get(name, 0.0) + value
            mine[name] = mine.get(name, 0.0) + value
        if verdicts := counts.get("judge/verdicts"):
            self._verdicts.append((verdicts, counts.get("judge/score_sum", 0.0)))

    def spent(self, worker: str) -> dict[str, float]:
        """What a new process under this name is to count as spent, by endpoint."""
        mine = self._by_worker.get(worker, {})
        return {
            name.split("/")[1]: self._earlier.get(name, 0.0) / self._workers + mine.get(name, 0.0)
            for name in self._totals
            if name.startswith("endpoints/") and name.endswith("/cost")
        }

    def metrics(self) -> dict[str, float]:
        """`explore/endpoints/<name>/...` as totals, and the judge's mean score of late."""
        values = {f"explore/{name}": value for name, value in self._totals.items() if name != "judge/score_sum"}
        if self._verdicts:
            values["explore/judge/score"] = sum(s for _, s in self._verdicts) / sum(n for n, _ in self._verdicts)
        return values

    def state(self) -> dict[str, Any]:
        """For the checkpoint."""
        return {"totals": dict(self._totals)}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint. Called before explorers are started."""
        self._totals = {str(name): float(value) for name, value in state["totals"].items()}
        self._earlier = dict(self._totals)
