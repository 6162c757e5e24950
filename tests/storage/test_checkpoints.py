"""Checkpoints: one manifest, one point in time."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest

from ludus.errors import StorageError
from ludus.storage.checkpoints import Checkpoint, CheckpointStore
from ludus.storage.tensors import save_tensors


def save(store: CheckpointStore, update: int) -> Checkpoint:
    staging = store.stage(update)
    save_tensors(staging / "weights.safetensors", {"w": np.full(4, update, np.float32)})
    return store.commit(staging, update, {"cursor": update * 10, "rng": 2**100 + update})


def test_latest_is_what_was_committed_last(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "checkpoints", keep=3)
    assert store.latest() is None
    saved = [save(store, update) for update in (1, 2)]
    found = CheckpointStore(tmp_path / "checkpoints", keep=3).latest()
    assert found == saved[-1]
    assert found is not None
    assert found.state == {"cursor": 20, "rng": 2**100 + 2}
    assert found.tensors("weights")["w"].tolist() == [2, 2, 2, 2]


def test_only_the_newest_are_kept_and_nothing_else_lies_around(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "checkpoints", keep=2)
    for update in range(5):
        save(store, update)
    assert store.list() == [3, 4]
    assert sorted(path.name for path in store.directory.iterdir()) == ["00000003", "00000004"]


def test_committing_the_same_again_is_a_no_op_and_other_contents_are_refused(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "checkpoints", keep=2)
    assert save(store, 5) == save(store, 5)
    staging = store.stage(5)
    with pytest.raises(StorageError, match="exists with other contents"):
        store.commit(staging, 5, {})
    assert store.list() == [5]


def test_state_may_hold_numpy_numbers_but_not_nan_or_objects(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "checkpoints", keep=2)
    saved = store.commit(store.stage(1), 1, {"n": np.int64(3), "x": np.float32(0.5), "a": np.arange(2), "t": (1, 2)})
    assert saved.state == {"n": 3, "x": 0.5, "a": [0, 1], "t": [1, 2]}
    assert store.load(1).state == saved.state
    for bad in (float("nan"), object()):
        with pytest.raises(StorageError, match="not JSON"):
            store.commit(store.stage(2), 2, {"x": bad})
    assert store.list() == [1]


def test_newer_format_is_refused_not_replaced_by_an_older_checkpoint(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = CheckpointStore(tmp_path / "checkpoints", keep=2)
    save(store, 1)
    manifest = save(store, 2).path / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 99}))
    with caplog.at_level(logging.WARNING), pytest.raises(StorageError, match=r"format 99.*upgrade"):
        store.latest()
    assert store.list() == [1, 2]


def test_checkpoint_moved_under_another_number_is_not_believed(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "checkpoints", keep=3)
    save(store, 1)
    save(store, 2).path.rename(store.directory / "00000007")
    found = store.latest()
    assert found is not None
    assert found.update == 1


def test_staging_of_an_unfinished_save_is_never_listed(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "checkpoints", keep=2)
    save(store, 1)
    save_tensors(store.stage(2) / "weights.safetensors", {"w": np.zeros(1)})
    assert store.list() == [1]
    save(store, 2)
    assert sorted(path.name for path in store.directory.iterdir()) == ["00000001", "00000002"]
