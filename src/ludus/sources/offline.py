"""Rows beside the rollouts: expert demonstrations, preference pairs, rows that people annotated and brought back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ludus.buffer import EpochStore, GatheredRows, ImportStore
from ludus.config import RunConfig
from ludus.sources.protocol import Batch, BatchSource
from ludus.storage.run_directory import RunDirectory


class OfflineRows(BatchSource):
    """So many `items` of a store in every batch. An `EpochStore` comes round for ever; imports are used once."""

    def __init__(self, store: EpochStore | ImportStore, items: int) -> None:
        self.name = store.name
        self._store = store
        self._items = items

    def next(self) -> Batch:
        """The next items; of imports, at most what there is."""
        claim = self._store.claim(self._items)
        return Batch(experiences=claim.experiences, claims={self.name: claim})

    def commit(self, batch: Batch) -> None:
        """The items have been trained on."""
        self._store.commit(batch.claims[self.name])

    def state(self) -> dict[str, Any]:
        """Which are used."""
        return self._store.state()

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a checkpoint."""
        self._store.load_state(state)

    def metrics(self) -> dict[str, float]:
        """Epochs done, or rows that wait."""
        return self._store.metrics()


def open_offline(config: RunConfig, run: RunDirectory, imports: ImportStore) -> list[OfflineRows]:
    """The offline sources of a run, those that it has."""
    buffer, usual = config.buffer, config.train.batch_episodes or 1
    found: list[OfflineRows] = []
    if buffer.expert is not None:
        rows = GatheredRows(run.expert)
        store = EpochStore("expert", [rows, imports.expert], seed=config.seed, fingerprint=rows.fingerprint)
        found.append(OfflineRows(store, buffer.expert.rows or usual))
    if buffer.pairs is not None:
        rows = GatheredRows(run.pairs)
        store = EpochStore("pairs", [rows], seed=config.seed, fingerprint=rows.fingerprint, rows_per_item=2)
        found.append(OfflineRows(store, buffer.pairs.pairs or usual))
    return [*found, OfflineRows(imports, usual)]
