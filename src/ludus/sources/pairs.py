"""Preference pairs (`buffer.pairs`): a better and a worse answer, always in one batch."""

from __future__ import annotations

from ludus.buffer import EpochStore, GatheredRows
from ludus.config import RunConfig
from ludus.sources.epoch_rows import EpochRows
from ludus.storage.run_directory import RunDirectory


def open_pairs(config: RunConfig, run: RunDirectory) -> EpochRows | None:
    """The preference pairs of a run; None where it has none."""
    pairs = config.buffer.pairs
    items = 0 if pairs is None else pairs.pairs or config.train.batch_episodes or 1
    if not items:
        return None
    rows = GatheredRows(run.pairs)
    store = EpochStore("pairs", [rows], seed=config.seed, fingerprint=rows.fingerprint, rows_per_item=2)
    return EpochRows(store, items)
