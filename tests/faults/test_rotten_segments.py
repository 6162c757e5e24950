"""F12: segments that are torn, rotten, padded, renamed or doubled, and catalogs that are gone."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from ludus.errors import CorruptRecord
from ludus.storage.catalog import Catalog
from ludus.storage.segment_file import open_segment
from ludus.storage.segment_reader import SegmentReader
from ludus.storage.segments import Recovery, SegmentLog


def rows(*tasks: int) -> pa.Table:
    return pa.table(
        {
            "episode": [f"e{task}" for task in tasks],
            "task": tasks,
            "attempt": [0] * len(tasks),
            "seat": [0] * len(tasks),
            "action": pa.array([[task] * 3 for task in tasks], pa.large_list(pa.int32())),
        }
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Segments with tasks (0, 1), (2, 3), (4, 5)."""
    with Catalog(tmp_path / "catalog.sqlite") as catalog:
        log = SegmentLog(tmp_path, "experiences", catalog)
        for task in (0, 2, 4):
            log.append(rows(task, task + 1))
            log.commit()
    return tmp_path


def reopened(run: Path) -> tuple[list[int], Recovery]:
    """Open the log, append one row, and say what is in it and what opening it found."""
    with Catalog(run / "catalog.sqlite") as catalog:
        log = SegmentLog(run, "experiences", catalog)
        log.append(rows(1000))
        log.commit()
        tasks = [task for _, table in log.scan() for task in table.column("task").to_pylist()]
        assert tasks[-1] == 1000
        return tasks[:-1], log.recovery


def last(run: Path) -> Path:
    return run / "experiences" / "000000000004.arrow"


def assert_noticed(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(CorruptRecord):
        open_segment(path, log="experiences")


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_truncation_is_noticed_at_every_byte_of_the_tail_and_throughout(run: Path, step: int) -> None:
    whole = last(run).read_bytes()
    for length in {*range(0, len(whole), step), *range(len(whole) - 200, len(whole))}:
        assert_noticed(last(run), whole[:length])
    last(run).write_bytes(whole)
    assert open_segment(last(run), log="experiences")[0].rows == 2


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_flipped_bit_is_noticed_wherever_it_is(run: Path, step: int) -> None:
    whole = last(run).read_bytes()
    for position in range(0, len(whole), step):
        rotten = bytearray(whole)
        rotten[position] ^= 1 << position % 8
        assert_noticed(last(run), bytes(rotten))


def zeros_behind(content: bytes) -> bytes:
    return content + bytes(1000)


def zeros_instead(content: bytes) -> bytes:
    return bytes(len(content))


def zero_tail(content: bytes) -> bytes:
    return content[:-200] + bytes(200)


def nothing(content: bytes) -> bytes:
    return b""


def torn(content: bytes) -> bytes:
    return content[: random.Random(1).randrange(len(content))]


def flipped(content: bytes) -> bytes:
    rotten = bytearray(content)
    rotten[random.Random(2).randrange(len(content))] ^= 0x10
    return bytes(rotten)


@pytest.mark.parametrize("damage", [zeros_behind, zeros_instead, zero_tail, nothing, torn, flipped])
@pytest.mark.parametrize("with_catalog", [True, False])
def test_damaged_segment_is_quarantined_counted_and_the_rest_is_used(
    run: Path, damage: Callable[[bytes], bytes], with_catalog: bool
) -> None:
    victim = run / "experiences" / "000000000002.arrow"
    victim.write_bytes(damage(victim.read_bytes()))
    if not with_catalog:
        (run / "catalog.sqlite").unlink()
    tasks, recovery = reopened(run)
    assert tasks == [0, 1, 4, 5]
    assert recovery.quarantined == (victim.name,)
    moved = run / "quarantine" / f"experiences-{victim.name}"
    assert moved.is_file()
    assert "not a whole segment" in json.loads(moved.with_name(moved.name + ".reason.json").read_text())["reason"]
    with Catalog.open_readonly(run / "catalog.sqlite") as catalog:
        assert catalog.query("SELECT source FROM quarantined") == [(str(victim),)]
        assert catalog.query("SELECT first_seq FROM segments ORDER BY 1") == [(0,), (4,), (6,)]
    assert reopened(run)[1] == Recovery()


def test_rows_of_a_quarantined_segment_may_come_again_under_new_numbers(run: Path) -> None:
    last(run).write_bytes(torn(last(run).read_bytes()))
    with Catalog(run / "catalog.sqlite") as catalog:
        log = SegmentLog(run, "experiences", catalog)
        assert log.append(rows(3, 4, 5)).tolist() == [1, 2]
        done = log.commit()
        assert done is not None
        assert done.first_seq == 6


def test_lost_catalog_is_rebuilt_from_the_segments(run: Path) -> None:
    for name in ("catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm"):
        (run / name).unlink(missing_ok=True)
    tasks, recovery = reopened(run)
    assert tasks == [0, 1, 2, 3, 4, 5]
    assert len(recovery.adopted) == 3
    with Catalog(run / "catalog.sqlite") as catalog:
        assert SegmentLog(run, "experiences", catalog).append(rows(0, 5, 6)).tolist() == [2]


def test_missing_segment_is_reported_and_its_rows_may_come_again(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    last(run).unlink()
    tasks, recovery = reopened(run)
    assert tasks == [0, 1, 2, 3]
    assert recovery.missing == (last(run).name,)
    assert "segments are gone: 000000000004.arrow" in caplog.text
    assert reopened(run)[1] == Recovery()


def test_copy_of_a_segment_under_another_number_is_not_believed(run: Path) -> None:
    shutil.copy(last(run), run / "experiences" / "000000000099.arrow")
    tasks, recovery = reopened(run)
    assert tasks == [0, 1, 2, 3, 4, 5]
    assert recovery.quarantined == ("000000000099.arrow",)


def test_files_that_are_no_segments_are_left_alone(run: Path) -> None:
    (run / "experiences" / "notes.txt").write_text("mine")
    (run / "experiences" / "x.arrow").write_text("mine too")
    tasks, recovery = reopened(run)
    assert tasks == [0, 1, 2, 3, 4, 5]
    assert recovery == Recovery()
    assert (run / "experiences" / "x.arrow").exists()


def test_reader_in_another_process_refuses_a_rotten_segment(run: Path) -> None:
    last(run).write_bytes(flipped(last(run).read_bytes()))
    reader = SegmentReader(run / "experiences")
    assert len(reader.read_experiences([0, 3])) == 2
    with pytest.raises(CorruptRecord):
        reader.read_experiences([4])


def test_segment_that_rots_before_it_is_trimmed_is_quarantined(run: Path) -> None:
    with Catalog(run / "catalog.sqlite") as catalog:
        log = SegmentLog(run, "experiences", catalog)
        log.append(rows(6, 7))
        log.commit()
        victim = run / "experiences" / "000000000006.arrow"
        victim.write_bytes(flipped(victim.read_bytes()))
        assert log.trim(8) == 6
        assert len(log) == 0
    assert (run / "quarantine" / f"experiences-{victim.name}").is_file()
