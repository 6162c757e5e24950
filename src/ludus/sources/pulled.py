"""Batches that the trainer pulls from its own loader (`buffer.loader`): the loop only says when."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ludus.sources.protocol import Batch, BatchSource
from ludus.sources.row_store import RowStore


class PulledRows(BatchSource):
    """One pull for each update; where the loader is, is saved beside the trainer's weights."""

    def __init__(self, rows: RowStore, *, in_flight: Callable[[], int], most_in_flight: int) -> None:
        self._rows = rows
        self._in_flight = in_flight
        self._most_in_flight = most_in_flight

    def next(self) -> Batch | None:
        """Ask for another pull, if the trainer has room."""
        return Batch(is_pulled=True) if self._in_flight() < self._most_in_flight else None

    def commit(self, batch: Batch) -> None:
        """The loader's place is in the trainer's state."""

    def state(self) -> dict[str, Any]:
        """Of an empty buffer."""
        return self._rows.state()

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a checkpoint."""
        self._rows.load_state(state)

    def on_published(self) -> None:
        """Old evaluation episodes can go now."""
        self._rows.trim()
