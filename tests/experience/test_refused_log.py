"""What was refused is on disk, once, and bounded; what is looked at is a row once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ludus.experience import KeptRows, RefusedLog
from ludus.records import Experiences
from ludus.storage.arrow import experiences_to_table
from ludus.storage.catalog import Catalog
from ludus.storage.segments import SegmentLog
from ludus.testing.experiences import sample_experiences


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog(tmp_path / "catalog.sqlite") as opened:
        yield opened


def refused(first: int, count: int, reason: str = "too_short", length: int = 3) -> Experiences:
    texts = {"reason": np.full(count, reason, object), "detail": np.full(count, "it is", object)}
    rows = sample_experiences([length] * count, tasks=range(first, first + count), tokens=True)
    return rows.replace(sequences=texts)


def add_verified(tmp_path: Path, catalog: Catalog, first: int, count: int) -> None:
    log = SegmentLog(tmp_path, "experiences", catalog)
    log.append(experiences_to_table(sample_experiences([3] * count, tasks=range(first, first + count), tokens=True)))
    log.commit()


def test_refused_rows_are_there_after_a_restart_and_once(tmp_path: Path, catalog: Catalog) -> None:
    log = RefusedLog(tmp_path, catalog)
    assert log.add(refused(0, 3), refused(5, 1, "malformed")) == 4
    again = RefusedLog(tmp_path, catalog)
    assert again.add(refused(2, 2)) == 1
    assert again.add() == again.add(Experiences.empty()) == 0
    assert len(again) == 5
    assert [task for tasks in again.tasks() for task in tasks] == [0, 1, 2, 5, 3]
    reasons = [reason for rows in KeptRows(tmp_path).scan_refused() for reason in rows.sequences["reason"]]
    assert reasons == ["too_short"] * 3 + ["malformed"] + ["too_short"]


def test_rows_of_other_columns_are_kept_too(tmp_path: Path, catalog: Catalog) -> None:
    log = RefusedLog(tmp_path, catalog)
    odd = refused(9, 1).replace(steps={"observation": np.zeros((3, 7), np.float64)})
    assert log.add(refused(0, 2), odd) == 3
    assert sum(len(rows) for rows in KeptRows(tmp_path).scan_refused()) == 3


def test_oldest_make_room_and_are_not_taken_for_new_when_they_come_again(tmp_path: Path, catalog: Catalog) -> None:
    log = RefusedLog(tmp_path, catalog)
    for first in range(0, 50, 5):
        log.add(refused(first, 5, length=500))
    size = sum(path.stat().st_size for path in (tmp_path / "refused").iterdir())
    assert log.trim(size // 2, settled_before=10) > 0
    assert sum(path.stat().st_size for path in (tmp_path / "refused").iterdir()) <= size // 2
    assert log.add(refused(0, 5)) == 0
    assert log.trim(0) > 0
    assert len(log) == 5  # the newest segment stays


def test_row_that_operators_refused_later_counts_as_refused(tmp_path: Path, catalog: Catalog) -> None:
    add_verified(tmp_path, catalog, 0, 6)
    RefusedLog(tmp_path, catalog).add(refused(2, 2))
    kept = KeptRows(tmp_path)
    numbers = [number for found, _ in kept.scan() for number in found.tolist()]
    assert numbers == [0, 1, 4, 5]
    assert kept.read(numbers).sequences["task"].tolist() == [0, 1, 4, 5]


def test_damaged_segment_is_passed_over_and_counted(tmp_path: Path, catalog: Catalog) -> None:
    add_verified(tmp_path, catalog, 0, 3)
    add_verified(tmp_path, catalog, 3, 3)
    path = min((tmp_path / "experiences").iterdir())
    path.write_bytes(path.read_bytes()[:-30])
    kept = KeptRows(tmp_path)
    assert [rows.sequences["task"].tolist() for _, rows in kept.scan()] == [[3, 4, 5]]
    assert kept.passed_over == 1


def test_directory_without_rows_has_nothing_to_see(tmp_path: Path) -> None:
    kept = KeptRows(tmp_path)
    assert list(kept.scan()) == []
    assert list(kept.scan_refused()) == []
