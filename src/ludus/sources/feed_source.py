"""Batches of what other runs play (`buffer.feeds`): their rows come into this run's buffer and are claimed from there.

Rows come in right after a checkpoint only, and `runs/cycle_source.py` sees to it: a resume then finds the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ludus.orchestrator.context import RunContext
from ludus.orchestrator.progress import Progress
from ludus.orchestrator.run_store import RunStore
from ludus.sources.async_rollouts import AsyncRollouts
from ludus.sources.feeds import Feeds
from ludus.sources.row_store import RowStore
from ludus.sources.task_issuer import TaskIssuer


class FeedSource(AsyncRollouts):
    """A buffer that other runs fill."""

    def __init__(
        self,
        context: RunContext,
        rows: RowStore,
        issuer: TaskIssuer,
        progress: Progress,
        store: RunStore,
        **options: Any,
    ) -> None:
        super().__init__(context, rows, issuer, progress, store, explores=False, **options)
        self._telemetry = context.telemetry
        self._feeds = Feeds(context, store.catalog, rows.buffer, rows.sink.refusals)

    @property
    def is_exhausted(self) -> bool:
        """Other runs may bring more at any time."""
        return False

    def take_in(self, wanted: int) -> bool:
        """Take a part of what feeds bring; returns whether there is no more now."""
        is_starving, self.is_dry = self.is_dry, False  # it is fed after this, or will be found so again
        with self._telemetry.room("buffer"):
            return self._feeds.take_in(is_starving=is_starving)

    def state(self) -> dict[str, Any]:
        """With the cursor of each feed."""
        return {**super().state(), "feeds": self._feeds.state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a checkpoint."""
        super().load_state(state)
        rows = sum(count for _, count, *_ in state["buffer"]["live"])
        self._feeds.load_state(state.get("feeds", {}), rows=rows)

    def metrics(self) -> dict[str, float]:
        """With what feeds have brought."""
        return {**super().metrics(), **self._feeds.metrics}
