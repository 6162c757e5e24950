"""F11: no space left, during a checkpoint, a commit, a publication, a catalog write and a metric line.

On a real small disk (a tmpfs, where mounting is allowed) and on an injected one (everywhere).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ludus.errors import DiskFull
from ludus.storage.atomic import publish_directory, sweep_leftovers, temporary_name, write_bytes
from ludus.storage.catalog import Catalog
from ludus.storage.checkpoints import CheckpointStore
from ludus.storage.filesystem import FileSystem, Piece
from ludus.storage.jsonl import JsonlWriter, read_jsonl
from ludus.storage.segments import SegmentLog
from ludus.storage.tensors import load_tensors, save_tensors

MESSAGE = r"\d+ MB free in .+, need ~\d+ MB"


class FullDisk(FileSystem):
    """A disk whose n-th changing call, and all after it, find no space."""

    def __init__(self, calls_left: int, code: int = errno.ENOSPC) -> None:
        self.calls_left = calls_left
        self._code = code

    def _spend(self) -> None:
        self.calls_left -= 1
        if self.calls_left < 0:
            raise OSError(self._code, os.strerror(self._code))

    def write_file(self, path: Path, pieces: Sequence[Piece]) -> None:
        if self.calls_left == 0:
            path.write_bytes(b"half")
        self._spend()
        super().write_file(path, pieces)

    def make_directory(self, path: Path) -> None:
        self._spend()
        super().make_directory(path)

    def rename(self, source: Path, target: Path) -> None:
        self._spend()
        super().rename(source, target)

    def free_bytes(self, path: Path) -> int:
        return 12_345_678


def rows(*tasks: int) -> pa.Table:
    count = len(tasks)
    return pa.table(
        {
            "episode": [str(task) for task in tasks],
            "task": tasks,
            "attempt": [0] * count,
            "seat": [0] * count,
            "action": [np.arange(2000) for _ in tasks],
        }
    )


def save(store: CheckpointStore, update: int, fs: FileSystem, size: int = 10) -> None:
    staging = store.stage(update)
    save_tensors(staging / "weights.safetensors", {"w": np.full(size, update, np.float64)}, fs=fs)
    store.commit(staging, update, {})


def attempts(operate: Callable[[FullDisk], None], check: Callable[[], None], code: int = errno.ENOSPC) -> int:
    """Let the disk be full at the first, second, ... call, until the operation succeeds."""
    for failures in range(100):
        disk = FullDisk(failures, code)
        if failures == successful_after(operate, disk):
            return failures
        check()
    pytest.fail("it never succeeded")


def successful_after(operate: Callable[[FullDisk], None], disk: FullDisk) -> int | None:
    allowed = disk.calls_left
    try:
        operate(disk)
    except DiskFull:
        return None
    return allowed


def test_message_says_what_is_free_and_what_is_needed(tmp_path: Path) -> None:
    with pytest.raises(DiskFull, match=re.escape(f"12 MB free in {tmp_path}, need ~310 MB")):
        write_bytes(tmp_path / "a", bytes(309_500_000), fs=FullDisk(0))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_checkpoint_that_finds_no_space_leaves_the_earlier_one(tmp_path: Path, code: int) -> None:
    home = tmp_path / "checkpoints"
    save(CheckpointStore(home, keep=2), 1, FileSystem())

    def check() -> None:
        found = CheckpointStore(home, keep=2).latest(strict=True)
        assert found is not None
        assert found.update == 1

    def operate(fs: FullDisk) -> None:
        store = CheckpointStore(home, keep=2)
        staging = store.stage(2)
        save_tensors(staging / "weights.safetensors", {"w": np.zeros(10)}, fs=fs)
        CheckpointStore(home, keep=2, fs=fs).commit(staging, 2, {})

    assert attempts(operate, check, code) >= 4


def test_commit_that_finds_no_space_keeps_its_rows_for_another_try(tmp_path: Path) -> None:
    with Catalog(tmp_path / "catalog.sqlite") as catalog:
        disk = FullDisk(1000)
        log = SegmentLog(tmp_path, "experiences", catalog, fs=disk)
        log.append(rows(1))
        log.commit()
        log.append(rows(2))
        for calls_left in (0, 1):
            disk.calls_left = calls_left
            with pytest.raises(DiskFull, match=MESSAGE):
                log.commit()
            assert log.next_seq == 1
            assert [path.name for path in log.directory.iterdir()] == ["000000000000.arrow"]
        disk.calls_left = 1000
        log.append(rows(3))
        done = log.commit()
        assert done is not None
        assert (done.first_seq, done.rows) == (1, 2)


def test_publication_that_finds_no_space_publishes_nothing(tmp_path: Path) -> None:
    final = tmp_path / "main" / "00000001"

    def operate(fs: FullDisk) -> None:
        staging = temporary_name(tmp_path)
        staging.mkdir()
        save_tensors(staging / "weights.safetensors", {"w": np.zeros(3)}, fs=fs)
        publish_directory(staging, final, fs=fs)

    attempts(operate, lambda: None if not final.exists() else pytest.fail("published"))
    assert load_tensors(final / "weights.safetensors")["w"].tolist() == [0, 0, 0]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "small"
    home.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", home], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("mounting a small disk is not allowed here")
    try:
        yield home
    finally:
        subprocess.run(["umount", "-l", home], check=True)


def use_up(disk: Path) -> None:
    with (disk / "ballast").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def enlarge(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=32m", disk], check=True)


def test_real_full_disk_stops_saves_loses_nothing_and_goes_on_after_space_is_freed(small_disk: Path) -> None:
    store = CheckpointStore(small_disk / "checkpoints", keep=2)
    save(store, 1, FileSystem(), size=10_000)
    with JsonlWriter(small_disk / "metrics.jsonl") as metrics, Catalog(small_disk / "catalog.sqlite") as catalog:
        metrics.write({"update": 1})
        log = SegmentLog(small_disk, "experiences", catalog)
        log.append(rows(1))
        log.commit()
        with pytest.raises(DiskFull, match=r"\d MB free in .*small.*, need ~5 MB"):
            save(store, 2, FileSystem(), size=500_000)
        use_up(small_disk)
        log.append(rows(2))
        with pytest.raises(DiskFull, match=MESSAGE):
            log.commit()
        assert not any(metrics.write({"update": 2, "text": "x" * 5000}) for _ in range(3))
        with pytest.raises(DiskFull, match=MESSAGE):
            fill(catalog)
        found = store.latest(strict=True)
        assert found is not None
        assert found.update == 1

        enlarge(small_disk)
        sweep_leftovers(small_disk)
        done = log.commit()
        assert done is not None
        save(store, 2, FileSystem(), size=500_000)
        assert metrics.write({"update": 3})
        with catalog.transaction():
            catalog.set_cursor("after", 1)
    assert list(read_jsonl(small_disk / "metrics.jsonl")) == [{"update": 1}, {"update": 3}]
    with Catalog(small_disk / "catalog.sqlite") as catalog:
        assert SegmentLog(small_disk, "experiences", catalog).read_experiences([0, 1]).sequences["task"].tolist() == [
            1,
            2,
        ]
        assert catalog.cursor("after") == 1
        assert catalog.cursor("fill") is None


def fill(catalog: Catalog) -> None:
    with catalog.transaction():
        catalog.set_cursor("fill", "x" * 3_000_000)
