"""Rows that come round in epochs, so many in each batch: expert demonstrations, preference pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ludus.buffer import EpochStore
from ludus.sources.protocol import Batch, BatchSource


class EpochRows(BatchSource):
    """`items` of a store in every batch."""

    def __init__(self, store: EpochStore, items: int) -> None:
        self.name = store.name
        self._store = store
        self._items = items

    def next(self) -> Batch:
        """The next items of the epoch."""
        drawn = self._store.claim(self._items)
        return Batch(experiences=drawn.experiences, claims={self.name: drawn})

    def commit(self, batch: Batch) -> None:
        """The items have been trained on."""
        self._store.commit(batch.claims[self.name])

    def state(self) -> dict[str, Any]:
        """The place in the epoch."""
        return self._store.state()

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a checkpoint."""
        self._store.load_state(state)

    def metrics(self) -> dict[str, float]:
        """Epochs done."""
        return {f"buffer/{self.name}_epochs": self._store.epochs}
