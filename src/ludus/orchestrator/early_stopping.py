"""Whether a policy has learnt enough before its steps are over: it wins often enough, or does not get better any more.

Invariant: decided by the updates since the run began, whose results are in the checkpoint; a run that was killed stops
after the same update.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from ludus.config import EarlyStoppingConfig
from ludus.orchestrator.progress import UpdateReport


class EarlyStopping:
    """Looks at every update; `reason` is empty until there is one to stop."""

    def __init__(self, config: EarlyStoppingConfig) -> None:
        self._config = config
        self._recent: deque[tuple[int, float, float]] = deque(maxlen=config.updates)
        self._best: float | None = None
        self._updates_since_best = 0

    @property
    def score(self) -> float | None:
        """Share of points over the last updates; None before there are so many of them."""
        return self._mean(1)

    @property
    def mean_return(self) -> float | None:
        """Mean return over the last updates; None before there are so many of them."""
        return self._mean(2)

    @property
    def reason(self) -> str:
        """Why it is enough; empty while it is not."""
        config, score = self._config, self.score
        if config.score is not None and score is not None and score >= config.score:
            return f"a score of {score:.3f} over {config.updates} updates (train.stop.score {config.score:g})"
        if config.plateau is not None and self._updates_since_best >= config.plateau:
            return f"no higher return for {self._updates_since_best} updates (train.stop.plateau)"
        return ""

    def note(self, report: UpdateReport) -> None:
        """Count an update."""
        if not report.rated_games:
            return
        self._recent.append((report.rated_games, report.score, report.mean_return))
        mean = self.mean_return
        if mean is None:
            return
        if self._best is None or mean > self._best:
            self._best, self._updates_since_best = mean, 0
        else:
            self._updates_since_best += 1

    def state(self) -> dict[str, Any]:
        """For the checkpoint."""
        return {"recent": [list(row) for row in self._recent], "best": self._best, "since": self._updates_since_best}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a checkpoint."""
        self._recent.clear()
        self._recent.extend((int(games), score, mean) for games, score, mean in state["recent"])
        self._best, self._updates_since_best = state["best"], int(state["since"])

    def _mean(self, column: int) -> float | None:
        if len(self._recent) < self._config.updates:
            return None
        games = sum(row[0] for row in self._recent)
        return sum(row[0] * row[column] for row in self._recent) / games
