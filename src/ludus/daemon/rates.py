"""How fast something goes, over the last few seconds."""

from __future__ import annotations

import time
from collections import deque

WINDOW_S = 10.0


class Rate:
    """Steps per second over the last few seconds."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, int]] = deque()

    def update(self, steps: int) -> float:
        """Note where the run is; returns the current rate. With another stage, steps begin again."""
        now = time.monotonic()
        if self._marks and steps < self._marks[-1][1]:
            self._marks.clear()
        self._marks.append((now, steps))
        while now - self._marks[0][0] > WINDOW_S:
            self._marks.popleft()
        elapsed = now - self._marks[0][0]
        return (steps - self._marks[0][1]) / elapsed if elapsed > 0 else 0.0
