"""The segment log: what is acknowledged is there once, under one number, until it is trimmed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ludus.errors import StorageError
from ludus.records import Experiences
from ludus.storage.catalog import Catalog
from ludus.storage.segment_reader import SegmentReader
from ludus.storage.segments import SegmentLog


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog(tmp_path / "catalog.sqlite") as opened:
        yield opened


@pytest.fixture
def log(tmp_path: Path, catalog: Catalog) -> SegmentLog:
    return SegmentLog(tmp_path, "experiences", catalog)


def rows(*tasks: int, seat: int = 0, attempt: int = 0) -> pa.Table:
    """One experience per task."""
    n = len(tasks)
    return pa.table(
        {
            "episode": [f"{task}/{attempt}" for task in tasks],
            "task": pa.array(tasks, pa.int64()),
            "attempt": pa.array([attempt] * n, pa.int64()),
            "seat": pa.array([seat] * n, pa.int64()),
            "action": pa.array([list(range(task % 5)) for task in tasks], pa.large_list(pa.int32())),
        }
    )


def tasks_in(table: pa.Table) -> list[int]:
    return table.column("task").to_pylist() if table.num_columns else []


def tasks_of(experiences: Experiences) -> list[int]:
    return experiences.sequences["task"].tolist() if len(experiences) else []


def everything(log: SegmentLog | SegmentReader) -> list[int]:
    return [task for _, table in log.scan() for task in tasks_in(table)]


def test_commit_writes_one_file_and_numbers_the_rows(log: SegmentLog, catalog: Catalog) -> None:
    log.append(rows(1, 2))
    log.append(rows(3))
    done = log.commit()
    assert done is not None
    assert (done.first_seq, done.rows, len(log.segments())) == (0, 3, 1)
    assert log.commit() is None
    log.append(rows(4))
    second = log.commit()
    assert second is not None
    assert second.first_seq == 3
    assert sorted(path.name for path in log.directory.iterdir()) == ["000000000000.arrow", "000000000003.arrow"]
    assert catalog.query("SELECT first_seq, rows FROM segments") == [(0, 3), (3, 1)]


def test_rows_are_read_by_number_in_any_order(log: SegmentLog) -> None:
    for task in range(0, 12, 3):
        log.append(rows(task, task + 1, task + 2))
        log.commit()
    for wanted in ([4], [3, 4, 5], [11, 0, 5], [7, 7, 6], [], [0, 3, 6, 9], list(range(12))):
        assert tasks_of(log.read_experiences(wanted)) == tasks_of(log.read_experiences(np.array(wanted, int))) == wanted
    with pytest.raises(StorageError, match="row 12 is not in"):
        log.read_experiences([0, 12])


def test_reading_copies_nothing(log: SegmentLog) -> None:
    log.append(rows(*range(50)))
    log.commit()
    before = pa.total_allocated_bytes()
    experiences = log.read_experiences(range(10, 40))
    assert pa.total_allocated_bytes() == before
    assert tasks_of(experiences) == list(range(10, 40))


def test_what_was_not_committed_is_gone_after_a_crash_and_may_come_again(
    tmp_path: Path, log: SegmentLog, catalog: Catalog
) -> None:
    log.append(rows(1))
    log.commit()
    log.append(rows(2))
    again = SegmentLog(tmp_path, "experiences", catalog)
    assert everything(again) == [1]
    assert again.append(rows(1, 2)).tolist() == [1]
    again.commit()
    assert everything(again) == [1, 2]


def test_inserting_twice_is_a_no_op_also_within_one_commit_and_across_restarts(
    tmp_path: Path, log: SegmentLog, catalog: Catalog
) -> None:
    assert log.append(rows(1, 2, 1)).tolist() == [0, 1]
    assert log.append(rows(2, 3)).tolist() == [1]
    log.commit()
    assert log.append(rows(1, 2, 3)).tolist() == []
    assert log.commit() is None
    assert SegmentLog(tmp_path, "experiences", catalog).append(rows(3, 4)).tolist() == [1]
    assert everything(log) == [1, 2, 3]


def test_seats_and_attempts_of_one_task_are_different_rows(log: SegmentLog) -> None:
    for seat, attempt in ((0, 0), (1, 0), (0, 1)):
        assert len(log.append(rows(1, seat=seat, attempt=attempt))) == 1
        assert len(log.append(rows(1, seat=seat, attempt=attempt))) == 0


def test_episodes_are_known_by_their_id(tmp_path: Path, catalog: Catalog) -> None:
    log = SegmentLog(tmp_path, "episodes", catalog)
    table = pa.table({"id": ["a", "b", "a"], "task": [1, 2, 1], "attempt": [0, 0, 0]})
    assert log.append(table).tolist() == [0, 1]
    log.commit()
    log.trim(log.next_seq)
    assert log.append(table).tolist() == []


def test_trimmed_rows_are_gone_but_never_accepted_again(tmp_path: Path, log: SegmentLog, catalog: Catalog) -> None:
    for task in (5, 6, 9, 7):
        log.append(rows(task))
        log.commit()
    assert log.trim(3) == 3
    assert everything(log) == [7]
    assert (log.segments()[0].first_seq, log.next_seq, len(log)) == (3, 4, 1)
    assert catalog.query("SELECT first_task, last_task FROM trimmed") == [(5, 6), (9, 9)]
    for reopened in (log, SegmentLog(tmp_path, "experiences", catalog)):
        assert reopened.append(rows(5, 6, 9, 7)).tolist() == []
    late = SegmentLog(tmp_path, "experiences", catalog)
    assert late.append(rows(8, 4)).tolist() == [0, 1]
    assert late.commit() is not None
    assert late.next_seq == 6


def test_runs_of_trimmed_tasks_grow_together(log: SegmentLog, catalog: Catalog) -> None:
    for tasks in ((0, 2, 4), (1, 3), (10,), (5, 6, 7, 8, 9)):
        log.append(rows(*tasks))
        log.commit()
        log.trim(log.next_seq)
    assert catalog.query("SELECT first_task, last_task FROM trimmed") == [(0, 10)]


def test_settled_tasks_need_no_memory_and_are_refused(tmp_path: Path, log: SegmentLog, catalog: Catalog) -> None:
    for tasks in ((0, 2, 4), (100,), (7, 50)):
        log.append(rows(*tasks))
        log.commit()
    log.trim(4)
    log.settle(60)
    assert catalog.query("SELECT first_task FROM trimmed") == [(100,)]
    again = SegmentLog(tmp_path, "experiences", catalog)
    assert again.recovery.quarantined == ()
    assert everything(again) == [7, 50]
    assert again.append(rows(0, 1, 59, 60, 100)).tolist() == [3]


def test_trim_keeps_segments_that_are_still_needed(log: SegmentLog) -> None:
    log.append(rows(1, 2, 3))
    log.commit()
    assert log.trim(2) == 0
    assert log.trim(3) == 3
    assert log.trim(3) == 0
    assert list(log.directory.iterdir()) == []


def test_rows_read_before_a_trim_stay_readable(log: SegmentLog) -> None:
    log.append(rows(1, 2, 3))
    log.commit()
    experiences = log.read_experiences([0, 1, 2])
    log.trim(3)
    assert tasks_of(experiences) == [1, 2, 3]
    with pytest.raises(StorageError, match="row 0 is not in"):
        log.read_experiences([0])


def test_reader_in_another_process_finds_new_segments_and_forgets_old_ones(log: SegmentLog) -> None:
    reader = SegmentReader(log.directory, most_open=2)
    for task in range(6):
        log.append(rows(task))
        log.commit()
    assert tasks_of(reader.read_experiences([5, 1])) == [5, 1]
    log.trim(3)
    reader.refresh()
    assert everything(reader) == [3, 4, 5]


def test_tables_of_different_columns_go_into_files_of_their_own_in_order(log: SegmentLog) -> None:
    other = rows(2).append_column("value", pa.array([[1.0]]))
    log.append(rows(1))
    log.append(other)
    log.append(rows(3))
    done = log.commit()
    assert done is not None
    assert (done.rows, [segment.rows for segment in log.segments()]) == (3, [1, 1, 1])
    assert everything(log) == [1, 2, 3]


def test_rows_without_their_keys_are_refused(log: SegmentLog) -> None:
    with pytest.raises(StorageError, match="need the column 'attempt'"):
        log.append(rows(1).drop_columns(["attempt"]))
    assert log.commit() is None


def test_numbers_are_never_given_twice_even_when_all_rows_are_gone(
    tmp_path: Path, log: SegmentLog, catalog: Catalog
) -> None:
    log.append(rows(1, 2))
    log.commit()
    log.trim(2)
    again = SegmentLog(tmp_path, "experiences", catalog)
    assert (again.segments(), again.next_seq) == ([], 2)
    again.reserve(10)
    again.reserve(5)
    assert SegmentLog(tmp_path, "experiences", catalog).next_seq == 10


def test_memory_of_keys_follows_the_live_rows(log: SegmentLog) -> None:
    for start in range(0, 1000, 100):
        log.append(rows(*range(start, start + 100)))
        log.commit()
        log.trim(log.next_seq - 100)
    assert len(log._keys) == len(log) == 100


def test_trim_that_fails_in_the_catalog_changes_nothing(log: SegmentLog, catalog: Catalog) -> None:
    log.append(rows(1, 2))
    log.commit()
    with catalog.transaction():
        catalog.execute("CREATE TRIGGER refuse BEFORE DELETE ON segments BEGIN SELECT raise(ABORT, 'no'); END")
    with pytest.raises(StorageError, match="no"):
        log.trim(2)
    assert everything(log) == [1, 2]
    assert catalog.query("SELECT count(*) FROM trimmed") == [(0,)]
    with catalog.transaction():
        catalog.execute("DROP TRIGGER refuse")
    assert log.trim(2) == 2
