"""Following a log that somebody else writes: in order, once, and never a row that is not whole."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from ludus.storage.arrow import experiences_to_table
from ludus.storage.catalog import Catalog
from ludus.storage.segment_file import segment_name
from ludus.storage.segment_follower import SegmentFollower
from ludus.storage.segments import SegmentLog
from ludus.testing.experiences import sample_experiences

SETTLE_S = 5.0


class Clock:
    """Time that passes when we say so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Writer:
    """A log with one segment for each call, and a folder that gets its files when we say so."""

    def __init__(self, folder: Path) -> None:
        self._catalog = Catalog(folder / "catalog.sqlite")
        self.log = SegmentLog(folder / "source", "experiences", self._catalog)
        self.target = folder / "experiences"
        self.target.mkdir()
        self._next_task = 0

    def write(self, count: int) -> Path:
        rows = sample_experiences([2] * count, tasks=range(self._next_task, self._next_task + count))
        self._next_task += count
        self.log.append(experiences_to_table(rows))
        done = self.log.commit()
        assert done is not None
        return self.log.directory / segment_name(done.first_seq)

    def deliver(self, count: int) -> Path:
        return Path(shutil.copy2(self.write(count), self.target))

    def close(self) -> None:
        self._catalog.close()


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    made = Writer(tmp_path)
    yield made
    made.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def read(follower: SegmentFollower) -> list[int]:
    """The tasks of all rows that can be had now."""
    found: list[int] = []
    while (segment := follower.next()) is not None:
        found += pa.Table.from_batches([segment[1]]).column("task").to_pylist()
        follower.take(segment[0])
    return found


def test_nothing_is_there_then_a_folder_then_rows(tmp_path: Path, clock: Clock) -> None:
    follower = SegmentFollower(tmp_path / "experiences", settle_s=SETTLE_S, clock=clock)
    assert follower.next() is None
    writer = Writer(tmp_path)
    assert read(follower) == []
    writer.deliver(3)
    assert read(follower) == [0, 1, 2]
    assert (follower.cursor, follower.missed, follower.damaged) == (3, 0, 0)
    assert not follower.is_settling
    writer.close()


def test_a_segment_that_is_not_taken_is_given_again(writer: Writer, clock: Clock) -> None:
    follower = SegmentFollower(writer.target, settle_s=SETTLE_S, clock=clock)
    writer.deliver(2)
    first, again = follower.next(), follower.next()
    assert first is not None
    assert first == again
    assert read(SegmentFollower(writer.target, cursor=2, clock=clock)) == []


def test_a_segment_that_is_still_being_copied_is_waited_for(writer: Writer, clock: Clock) -> None:
    follower = SegmentFollower(writer.target, settle_s=SETTLE_S, clock=clock)
    whole = writer.write(2)
    copy, content = writer.target / whole.name, whole.read_bytes()
    writer.deliver(2)
    for size in range(0, len(content), 1500):
        copy.write_bytes(content[:size])
        assert follower.next() is None
        clock.now += SETTLE_S - 1
    copy.write_bytes(content)
    assert read(follower) == [0, 1, 2, 3]
    assert follower.damaged == 0


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "garbage"])
def test_a_damaged_segment_is_passed_over_when_it_stays_as_it_is(writer: Writer, clock: Clock, damage: str) -> None:
    follower = SegmentFollower(writer.target, settle_s=SETTLE_S, clock=clock)
    writer.deliver(2)
    bad = writer.deliver(3)
    writer.deliver(4)
    content = bytearray(bad.read_bytes())
    content[len(content) // 2] ^= 0xFF
    bad.write_bytes({"cut": content[:-40], "flipped": content, "empty": b"", "garbage": b"x" * 5000}[damage])
    assert read(follower) == [0, 1]
    assert follower.is_settling
    clock.now += SETTLE_S
    assert not follower.is_settling
    assert read(follower) == [5, 6, 7, 8]
    assert (follower.damaged, follower.missed, follower.cursor) == (1, 3, 9)


def test_a_damaged_last_segment_does_not_hide_what_comes_after_it(writer: Writer, clock: Clock) -> None:
    follower = SegmentFollower(writer.target, settle_s=SETTLE_S, clock=clock)
    writer.deliver(2).write_bytes(b"")
    assert read(follower) == []
    clock.now += SETTLE_S
    assert read(follower) == []
    writer.deliver(1)
    assert read(follower) == [2]
    assert (follower.damaged, follower.missed) == (1, 2)


def test_segments_that_arrive_out_of_order_are_read_in_order(writer: Writer, clock: Clock) -> None:
    follower = SegmentFollower(writer.target, settle_s=SETTLE_S, clock=clock)
    late = writer.write(2)
    writer.deliver(2)
    assert read(follower) == []
    assert follower.is_settling
    shutil.copy2(late, writer.target)
    assert read(follower) == [0, 1, 2, 3]
    assert follower.missed == 0


def test_trimmed_rows_are_counted_only_when_they_were_waited_for(writer: Writer, clock: Clock) -> None:
    first, second = writer.deliver(2), writer.deliver(2)
    writer.deliver(2)
    first.unlink()
    late = SegmentFollower(writer.target, settle_s=SETTLE_S, clock=clock)
    assert read(late) == []
    clock.now += SETTLE_S
    assert read(late) == [2, 3, 4, 5]
    assert late.missed == 0
    early = SegmentFollower(writer.target, cursor=2, settle_s=SETTLE_S, clock=clock)
    assert early.next() is not None
    second.unlink()
    early = SegmentFollower(writer.target, cursor=2, settle_s=SETTLE_S, clock=clock)
    assert read(early) == []
    clock.now += SETTLE_S
    assert read(early) == [4, 5]
    assert (early.missed, early.damaged) == (2, 0)
