"""Rows that people annotated and brought back while the run is going (`inbox/`): each is trained on once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ludus.buffer import ImportStore
from ludus.sources.protocol import Batch, BatchSource


class ImportedRows(BatchSource):
    """At most `most` rows in a batch, while there are any."""

    name = "imports"

    def __init__(self, store: ImportStore, most: int) -> None:
        self.store = store
        self._most = most

    def next(self) -> Batch:
        """What there is."""
        imported = self.store.claim(self._most)
        return Batch(experiences=imported.experiences, claims={self.name: imported})

    def commit(self, batch: Batch) -> None:
        """They have been trained on."""
        self.store.commit(batch.claims[self.name])

    def state(self) -> dict[str, Any]:
        """Which are used."""
        return self.store.state()

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a checkpoint."""
        self.store.load_state(state)

    def metrics(self) -> dict[str, float]:
        """Rows that wait."""
        waiting = self.store.waiting
        return {"buffer/imports_waiting": float(waiting)} if waiting else {}
