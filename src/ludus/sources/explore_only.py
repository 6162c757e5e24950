"""Mode explore: rollouts fill the buffer until it is full. An update is a batch of episodes; nothing is trained."""

from __future__ import annotations

from typing import Any

from ludus.orchestrator.workers import Workers
from ludus.sources.async_rollouts import AsyncRollouts
from ludus.sources.protocol import Batch


class ExploreOnly(AsyncRollouts):
    """Plays; never claims."""

    def __init__(self, workers: Workers, *parts: Any) -> None:
        """`parts` are those of `AsyncRollouts`."""
        super().__init__(*parts, in_flight=lambda: 0, most_in_flight=0)
        self._workers = workers

    @property
    def is_exhausted(self) -> bool:
        """Whether the buffer is full."""
        buffer = self._rows.buffer
        return len(buffer) >= buffer.limits.capacity

    def next(self, most: int | None = None) -> Batch:
        """Wait for one batch of episodes."""
        counts, episodes = self._rows.sink.counts, self._rows.batch_episodes
        goal, steps = counts.training_episodes + episodes, counts.training_steps
        self._workers.wait_until(lambda: counts.training_episodes >= goal or self.is_exhausted, self._keep_busy)
        return Batch(explored=(counts.training_steps - steps, episodes))

    def commit(self, batch: Batch) -> None:
        """Nothing was claimed."""

    def _keep_busy(self) -> None:
        self._rows.check_usable()
        wanted = self._config.explore.games_in_flight * 2 - self._issuer.explorers.running_for_training
        if wanted > 0:
            self._issuer.issue(wanted)
