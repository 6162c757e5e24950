"""What explorers have done of late, over all of them."""

from __future__ import annotations

from ludus.explore.messages import Played


class ExplorerWork:
    """How much explorers did since somebody asked: seconds of playing, and tokens."""

    def __init__(self) -> None:
        self._busy_s: dict[str, float] = {}
        self._tokens = 0
        self.requeued = 0
        """Episodes that were given out again, since their explorer was lost. Never reset."""

    def add(self, worker: str, played: Played) -> None:
        """Take what an explorer tells of the time since it last told."""
        self._busy_s[worker] = self._busy_s.get(worker, 0.0) + played.busy_s
        self._tokens += played.sampled_tokens

    def take_metrics(self) -> dict[str, float]:
        """Since the last call: seconds that an explorer played, mean over explorers, and tokens for each of them."""
        busy_s = sum(self._busy_s.values()) / max(len(self._busy_s), 1)
        values = {"time/explore_s": busy_s} if busy_s else {}
        if self._tokens and busy_s:
            values["explore/tokens_per_s"] = self._tokens / busy_s
        self._busy_s, self._tokens = {}, 0
        return values
