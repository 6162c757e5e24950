"""Updates that need no rollouts: objectives on offline rows alone, and batches that the trainer pulls from a loader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ludus.sources.protocol import Batch, BatchSource
from ludus.sources.row_store import RowStore


class NoRollouts(BatchSource):
    """For an objective without rollouts (SFT, DPO): the rows beside them are all there is."""

    def __init__(self, rows: RowStore) -> None:
        self._rows = rows

    def next(self) -> Batch | None:
        """No rows."""
        return Batch()

    def commit(self, batch: Batch) -> None:
        """Nothing was claimed."""

    def state(self) -> dict[str, Any]:
        """Of an empty buffer."""
        return self._rows.state()

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a checkpoint."""
        self._rows.load_state(state)

    def on_published(self) -> None:
        """Old evaluation episodes can go now."""
        self._rows.trim()

    def metrics(self) -> dict[str, float]:
        """Of the buffer."""
        return self._rows.metrics()


class PulledRows(NoRollouts):
    """One pull for each update from the trainer's loader (`buffer.loader`), whose place is in the trainer's state."""

    def __init__(
        self,
        rows: RowStore,
        *,
        in_flight: Callable[[], int],
        most_in_flight: int,
        told: Callable[[], dict[str, float]],
        produce: Callable[[], None],
    ) -> None:
        """`told` gives what the loader has said of itself; `produce` starts whatever makes its data."""
        super().__init__(rows)
        self._in_flight = in_flight
        self._most_in_flight = most_in_flight
        self._told, self._produce = told, produce

    def start(self) -> None:
        """Begin to make data, where that is the run's own business."""
        self._produce()

    def next(self) -> Batch | None:
        """Ask for another pull, if the trainer has room."""
        return Batch(is_pulled=True) if self._in_flight() < self._most_in_flight else None

    def metrics(self) -> dict[str, float]:
        """What the loader tells of itself; nothing goes through the buffer."""
        return self._told()
