"""Expert rows (`buffer.expert`): demonstrations that were gathered before the run, and those that people add to it."""

from __future__ import annotations

from ludus.buffer import EpochStore, GatheredRows, ImportStore
from ludus.config import RunConfig
from ludus.sources.epoch_rows import EpochRows
from ludus.storage.run_directory import RunDirectory


def open_expert(config: RunConfig, run: RunDirectory, imports: ImportStore) -> EpochRows | None:
    """The expert rows of a run; None where it has none."""
    expert = config.buffer.expert
    items = 0 if expert is None else expert.rows or config.train.batch_episodes or 1
    if not items:
        return None
    rows = GatheredRows(run.expert)
    store = EpochStore("expert", [rows, imports.expert], seed=config.seed, fingerprint=rows.fingerprint)
    return EpochRows(store, items)
