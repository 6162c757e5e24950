"""F13: the newest checkpoint is damaged; the one before is used, loudly, and never a fresh start."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ludus.errors import IncompleteCheckpoint
from ludus.storage.checkpoints import CheckpointStore
from ludus.storage.tensors import save_tensors


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    store = CheckpointStore(tmp_path / "checkpoints", keep=3)
    for update in (400, 420):
        staging = store.stage(update)
        for name in ("weights", "optimizer"):
            save_tensors(staging / f"{name}.safetensors", {"w": np.full(10, update)})
        store.commit(staging, update, {"cursor": update})
    return store


def truncate(path: Path) -> None:
    content = (path / "weights.safetensors").read_bytes()
    (path / "weights.safetensors").write_bytes(content[:-1])


def flip(path: Path) -> None:
    content = bytearray((path / "optimizer.safetensors").read_bytes())
    content[-1] ^= 1
    (path / "optimizer.safetensors").write_bytes(content)


def remove_one(path: Path) -> None:
    (path / "optimizer.safetensors").unlink()


def empty_manifest(path: Path) -> None:
    (path / "manifest.json").write_bytes(b"")


def no_manifest(path: Path) -> None:
    (path / "manifest.json").unlink()


def list_for_manifest(path: Path) -> None:
    (path / "manifest.json").write_text("[1, 2]")


def edited_state(path: Path) -> None:
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["state"]["cursor"] = 0
    (path / "manifest.json").write_text(json.dumps(manifest))


def file_for_directory(path: Path) -> None:
    (path / "weights.safetensors").unlink()
    (path / "weights.safetensors").mkdir()


DAMAGES = [
    truncate,
    flip,
    remove_one,
    empty_manifest,
    no_manifest,
    list_for_manifest,
    edited_state,
    file_for_directory,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_previous_checkpoint_is_used_with_a_warning_that_names_both(
    store: CheckpointStore, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    damage(store.directory / "00000420")
    found = store.latest()
    assert found is not None
    assert found.update == 400
    warning = next(record for record in caplog.records if record.levelname == "WARNING")
    assert "checkpoint 420 is damaged" in warning.getMessage()
    assert "using checkpoint 400" in warning.getMessage()
    assert store.list() == [400]
    assert (store.directory.parent / "quarantine" / "checkpoints-00000420").is_dir()


@pytest.mark.parametrize("damage", DAMAGES)
def test_strict_resume_refuses_and_touches_nothing(store: CheckpointStore, damage: Callable[[Path], None]) -> None:
    damage(store.directory / "00000420")
    with pytest.raises(IncompleteCheckpoint, match="checkpoint 420 is damaged"):
        store.latest(strict=True)
    assert store.list() == [400, 420]


def test_when_none_is_usable_it_is_an_error_and_stays_one(store: CheckpointStore) -> None:
    for update in store.list():
        flip(store.directory / f"{update:08d}")
    for _ in range(2):
        with pytest.raises(IncompleteCheckpoint, match="not starting over"):
            store.latest()
    assert store.list() == [400, 420]


def test_run_goes_on_from_the_previous_one_and_reaches_the_same_number_again(store: CheckpointStore) -> None:
    flip(store.directory / "00000420")
    assert store.latest() is not None
    staging = store.stage(420)
    save_tensors(staging / "weights.safetensors", {"w": np.zeros(1)})
    store.commit(staging, 420, {"cursor": 420})
    found = store.latest(strict=True)
    assert found is not None
    assert found.update == 420


def test_same_damage_twice_fills_two_places_in_quarantine(store: CheckpointStore) -> None:
    spare = store.directory.parent / "spare"
    shutil.copytree(store.directory / "00000420", spare)
    for _ in range(2):
        if not (store.directory / "00000420").exists():
            shutil.copytree(spare, store.directory / "00000420")
        truncate(store.directory / "00000420")
        store.latest()
    kept = [path for path in (store.directory.parent / "quarantine").iterdir() if path.is_dir()]
    assert len(kept) == 2
