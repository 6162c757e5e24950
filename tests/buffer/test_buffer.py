"""The buffer: durable, exactly once, fresh enough, and the same after a crash."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ludus.buffer import SAMPLERS, Buffer
from ludus.config import BufferConfig
from ludus.errors import DiskFull, LudusError
from ludus.records import Experiences
from ludus.storage.catalog import Catalog
from ludus.storage.filesystem import REAL, FileSystem
from ludus.storage.segment_reader import SegmentReader
from ludus.storage.segments import SegmentLog
from ludus.testing.experiences import sample_experiences

Open = Callable[..., Buffer]


@pytest.fixture
def open_buffer(tmp_path: Path) -> Iterator[Open]:
    catalogs: list[Catalog] = []

    def open_it(*, fs: Any = REAL, batch_rows: int = 4, max_staleness: int | None = None, **config: Any) -> Buffer:
        for catalog in catalogs:
            catalog.close()
        catalogs[:] = [Catalog(tmp_path / "catalog.sqlite")]
        log = SegmentLog(tmp_path, "experiences", catalogs[0], fs=fs)
        return Buffer(
            log,
            BufferConfig.model_validate(config),
            batch_rows=batch_rows,
            rows_per_episode=2,
            concurrency=100,
            max_staleness=max_staleness,
        )

    yield open_it
    for catalog in catalogs:
        catalog.close()


def rows(first: int, count: int, *, version: int = 0) -> Experiences:
    return sample_experiences([2] * count, tasks=range(first, first + count), version=version, seed=first)


def tasks_of(buffer: Buffer, claim: Any) -> list[int]:
    return buffer.read(claim).sequences["task"].tolist()


def test_registry_and_config_name_the_same_samplers() -> None:
    assert set(BufferConfig.model_fields["sampler"].annotation.__args__) == set(SAMPLERS)  # type: ignore[union-attr]


def test_batch_comes_back_as_it_was_inserted(open_buffer: Open) -> None:
    buffer = open_buffer()
    given = rows(0, 4)
    assert buffer.insert(given) == 4
    claim = buffer.claim(0, seed=1)
    assert claim is not None
    found = buffer.read(claim)
    assert all(np.array_equal(found.steps[name], given.steps[name]) for name in given.steps)


def test_other_process_reads_a_claim_from_the_files(open_buffer: Open, tmp_path: Path) -> None:
    buffer = open_buffer()
    buffer.insert(rows(0, 3))
    buffer.insert(rows(3, 3))
    claim = buffer.claim(0, seed=1)
    assert claim is not None
    found = SegmentReader(tmp_path / "experiences").read_experiences(claim.rows)
    assert found.sequences["task"].tolist() == [0, 1, 2, 3]


def test_inserting_twice_is_a_no_op(open_buffer: Open) -> None:
    buffer = open_buffer()
    assert buffer.insert(rows(0, 4)) == 4
    assert buffer.insert(rows(2, 4)) == 2
    assert buffer.insert(rows(0, 6)) == 0
    assert buffer.insert(Experiences.empty()) == 0
    assert len(buffer) == 6
    assert buffer.counters["duplicates"] == 8


def test_fifo_goes_in_order_and_each_row_is_used_once(open_buffer: Open) -> None:
    buffer = open_buffer(sampler="fifo")
    buffer.insert(rows(0, 10))
    seen = []
    while claim := buffer.claim(0, seed=1):
        seen += tasks_of(buffer, claim)
        buffer.commit(claim)
    assert seen == list(range(8))
    assert len(buffer) == 2


@pytest.mark.parametrize("sampler", sorted(SAMPLERS))
def test_no_row_is_used_more_often_than_allowed_nor_twice_in_a_batch(open_buffer: Open, sampler: str) -> None:
    buffer = open_buffer(sampler=sampler, reuse=3)
    buffer.insert(rows(0, 12))
    used: Counter[int] = Counter()
    seed = 0
    while claim := buffer.claim(0, seed=seed):
        assert len(set(claim.rows.tolist())) == 4
        used.update(claim.rows.tolist())
        buffer.commit(claim)
        seed += 1
    assert max(used.values()) == 3
    assert sum(used.values()) <= 36
    assert buffer.may_explore(0) >= 1


def test_least_used_spreads_before_it_repeats(open_buffer: Open) -> None:
    buffer = open_buffer(sampler="least_used", reuse=2)
    buffer.insert(rows(0, 8))
    batches = []
    for _ in range(4):
        claim = buffer.claim(0, seed=0)
        assert claim is not None
        batches.append(claim.rows.tolist())
        buffer.commit(claim)
    assert batches == [[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 2, 3], [4, 5, 6, 7]]


def test_least_used_newest_takes_what_came_last_and_spreads_before_it_repeats(open_buffer: Open) -> None:
    """With a row in the middle that was used already, and one use left of each when new rows come."""
    buffer = open_buffer(sampler="least_used_newest", reuse=2)
    buffer.insert(rows(0, 8))
    batches = []
    for fresh in (0, 0, 3, 0):
        buffer.insert(rows(100 + len(batches), fresh))
        claim = buffer.claim(0, seed=0)
        assert claim is not None
        batches.append(claim.rows.tolist())
        buffer.commit(claim)
    assert batches == [[4, 5, 6, 7], [0, 1, 2, 3], [7, 8, 9, 10], [6, 8, 9, 10]]


@pytest.mark.parametrize("sampler", ["uniform", "least_used", "least_used_newest"])
def test_uses_of_a_row_and_the_ratio_of_reads_to_writes_hold_together(open_buffer: Open, sampler: str) -> None:
    """Light-MALib's `sample_max_usage` and `r_w_ratio`, with each of its samplers: whichever is reached first counts."""
    buffer = open_buffer(sampler=sampler, reuse=3, samples_per_insert=1.5, min_size=8)
    used: Counter[int] = Counter()
    read = written = 0
    for turn in range(30):
        while claim := buffer.claim(0, seed=turn):
            used.update(claim.rows.tolist())
            buffer.commit(claim)
            read += len(claim)
        assert read <= 1.5 * written
        assert buffer.may_explore(0) >= 1, "explorers must not wait while the trainer does"
        buffer.insert(rows(written, 3))
        written += 3
    assert max(used.values()) <= 3
    assert read >= 1.5 * (written - 3) - 4, "the ratio is used up, to less than a batch"


def draw_often(buffer: Buffer, times: int) -> Counter[int]:
    drawn: Counter[int] = Counter()
    for seed in range(times):
        claim = buffer.claim(0, seed=seed)
        assert claim is not None
        drawn.update(claim.rows.tolist())
        buffer.abandon(claim)
    return drawn


def test_uniform_gives_every_row_the_same_chance(open_buffer: Open) -> None:
    buffer = open_buffer(sampler="uniform")
    buffer.insert(rows(0, 16))
    drawn = draw_often(buffer, 2000)
    # 2,000 draws of 4 out of 16: mean 500, standard deviation 19.
    assert all(abs(drawn[row] - 500) < 95 for row in range(16))


def set_priorities(buffer: Buffer, *priorities: float) -> None:
    """As if the buffer had given these to its first rows."""
    buffer._window["priority"][: len(priorities)] = priorities


def test_prioritised_draws_in_proportion(open_buffer: Open) -> None:
    buffer = open_buffer(sampler="prioritised", priority_exponent=0.5, batch_rows=1)
    buffer.insert(rows(0, 4))
    set_priorities(buffer, 1.0, 4.0, 9.0, 16.0)
    drawn = draw_often(buffer, 4000)
    assert [drawn[row] / 4000 for row in range(4)] == pytest.approx([0.1, 0.2, 0.3, 0.4], abs=0.03)


def test_exponent_zero_is_uniform_and_new_rows_get_priority_1(open_buffer: Open) -> None:
    buffer = open_buffer(sampler="prioritised", priority_exponent=0.0, batch_rows=1)
    buffer.insert(rows(0, 2))
    set_priorities(buffer, 100.0, 1.0)
    assert draw_often(buffer, 1000)[0] / 1000 == pytest.approx(0.5, abs=0.06)
    buffer.insert(rows(2, 1))
    assert buffer.state()["live"][-1] == [1, 2, 0, 1.0]


def test_same_window_and_seed_give_the_same_batch(open_buffer: Open) -> None:
    buffer = open_buffer(sampler="uniform")
    buffer.insert(rows(0, 30))
    batches = set()
    for seed in (7, 7, 8):
        claim = buffer.claim(0, seed=seed)
        assert claim is not None
        batches.add(tuple(claim.rows.tolist()))
        buffer.abandon(claim)
    assert len(batches) == 2


def test_oldest_make_room_and_are_counted(open_buffer: Open) -> None:
    buffer = open_buffer(capacity=6)
    buffer.insert(rows(0, 4))
    buffer.insert(rows(4, 4))
    claim = buffer.claim(0, seed=0)
    assert claim is not None
    assert tasks_of(buffer, claim) == [2, 3, 4, 5]
    assert buffer.counters["evicted_unused"] == 2


def test_claimed_rows_may_be_evicted_and_the_batch_still_counts(open_buffer: Open) -> None:
    buffer = open_buffer(capacity=4)
    buffer.insert(rows(0, 4))
    claim = buffer.claim(0, seed=0)
    assert claim is not None
    buffer.insert(rows(4, 4))
    assert buffer.trim() == 0
    assert tasks_of(buffer, claim) == [0, 1, 2, 3]
    buffer.commit(claim)
    assert len(buffer) == 4
    assert buffer.counters["committed"] == 4


def test_rows_too_many_versions_behind_are_refused_and_counted(open_buffer: Open) -> None:
    buffer = open_buffer(max_staleness=2)
    buffer.insert(rows(0, 3, version=4))
    buffer.insert(rows(3, 5, version=5))
    claim = buffer.claim(7, seed=0)
    assert claim is not None
    assert tasks_of(buffer, claim) == [3, 4, 5, 6]
    assert claim.staleness.tolist() == [2] * 4
    assert buffer.counters["stale"] == 3


def test_row_is_as_old_as_its_oldest_chosen_element(open_buffer: Open) -> None:
    buffer = open_buffer(max_staleness=1, batch_rows=1)
    mixed = sample_experiences((3,), tokens=True)
    mixed = mixed.replace(steps={"version": np.array([0, 6, 5], np.int32)})
    buffer.insert(mixed)
    claim = buffer.claim(6, seed=0)
    assert claim is not None
    assert claim.staleness.tolist() == [1]
    buffer.abandon(claim)
    assert buffer.claim(7, seed=0) is None


def test_explorers_may_run_ahead_by_the_staleness_bound(open_buffer: Open) -> None:
    buffer = open_buffer(max_staleness=1)
    assert buffer.may_explore(0) == 4  # two batches of four rows, two rows per episode
    assert buffer.may_explore(3) == 1
    buffer.insert(rows(0, 6))
    assert buffer.may_explore(0) == 1
    claim = buffer.claim(0, seed=0)
    assert claim is not None
    assert buffer.may_explore(0) == 1  # the batch in training is not a version yet
    buffer.commit(claim)
    assert buffer.may_explore(0) == 3
    assert buffer.may_explore(50) == 0


def test_concurrency_bounds_exploration(open_buffer: Open) -> None:
    buffer = open_buffer(max_staleness=1000, batch_rows=512)
    assert buffer.may_explore(0) == 100
    assert buffer.may_explore(99) == 1


def test_abandoned_batch_is_as_if_never_claimed(open_buffer: Open) -> None:
    buffer = open_buffer()
    buffer.insert(rows(0, 4))
    before = buffer.state()
    claim = buffer.claim(0, seed=0)
    assert claim is not None
    assert buffer.claim(0, seed=0) is None
    buffer.abandon(claim)
    assert buffer.state() == before
    with pytest.raises(LudusError, match="not open"):
        buffer.commit(claim)


def test_claim_by_tasks_is_in_task_and_seat_order_whatever_the_insertion_order(open_buffer: Open) -> None:
    buffer = open_buffer(batch_rows=8)
    for tasks, seats in (([5, 2], [0, 1]), ([5, 3, 9], [1, 0, 0]), ([2, 4], [0, 0])):
        buffer.insert(sample_experiences([1] * len(tasks), tasks=tasks, seats=seats))
    claim = buffer.claim_tasks(2, 4, version=3)
    found = buffer.read(claim).sequences
    assert list(zip(found["task"].tolist(), found["seat"].tolist(), strict=True)) == [
        (2, 0), (2, 1), (3, 0), (4, 0), (5, 0), (5, 1),
    ]  # fmt: skip
    buffer.commit(claim)
    assert len(buffer.claim_tasks(2, 4)) == 0
    assert buffer.read(buffer.claim_tasks(0, 100)).sequences["task"].tolist() == [9]


def test_claim_by_tasks_takes_the_first_attempt_of_each_task(open_buffer: Open) -> None:
    buffer = open_buffer()
    again = sample_experiences((1, 1), tasks=(0, 0), seats=(0, 1))
    again = again.replace(
        sequences={"attempt": np.array([1, 1]), "episode": np.array(["second", "second"], object)},
    )
    buffer.insert(again)
    buffer.insert(sample_experiences((1, 1), tasks=(0, 0), seats=(0, 1)))
    found = buffer.read(buffer.claim_tasks(0, 1)).sequences
    assert found["attempt"].tolist() == [0, 0]


def test_after_a_crash_the_buffer_is_at_the_checkpoint_and_later_rows_are_unused(open_buffer: Open) -> None:
    buffer = open_buffer(reuse=2, sampler="fifo")
    buffer.insert(rows(0, 8))
    first = buffer.claim(0, seed=0)
    assert first is not None
    buffer.commit(first)
    saved = json.loads(json.dumps(buffer.state(), allow_nan=False))
    second = buffer.claim(0, seed=0)
    assert second is not None
    buffer.commit(second)
    buffer.insert(rows(8, 3))

    again = open_buffer(reuse=2, sampler="fifo")
    again.load_state(saved)
    assert again.state()["live"] == [[0, 4, 1, 1.0], [4, 7, 0, 1.0]]
    assert again.counters["inserted"] == 11
    assert again.counters["committed"] == 4
    repeated = again.claim(0, seed=0)
    assert repeated is not None
    assert repeated.rows.tolist() == second.rows.tolist()
    again.load_state(saved)
    with pytest.raises(LudusError, match="the buffer went back"):
        again.commit(repeated)


def test_buffer_without_a_checkpoint_has_every_acknowledged_row_unused(open_buffer: Open) -> None:
    buffer = open_buffer()
    buffer.insert(rows(0, 4))
    claim = buffer.claim(0, seed=0)
    assert claim is not None
    buffer.commit(claim)
    assert open_buffer().state()["live"] == [[0, 4, 0, 1.0]]


def test_smaller_limits_apply_to_what_a_checkpoint_brings_back(open_buffer: Open) -> None:
    buffer = open_buffer(reuse=3)
    buffer.insert(rows(0, 8))
    claim = buffer.claim(0, seed=0)
    assert claim is not None
    buffer.commit(claim)
    again = open_buffer(reuse=1, capacity=4)
    again.load_state(buffer.state())
    assert again.state()["live"] == [[4, 4, 0, 1.0]]


def test_priorities_survive_a_crash(open_buffer: Open) -> None:
    buffer = open_buffer(sampler="prioritised")
    buffer.insert(rows(0, 4))
    set_priorities(buffer, 1.0, 0.1, 7.3, 1.0)
    again = open_buffer(sampler="prioritised")
    again.load_state(json.loads(json.dumps(buffer.state())))
    assert again.state() == buffer.state()


def test_trim_keeps_what_a_checkpoint_or_a_claim_can_need(open_buffer: Open) -> None:
    buffer = open_buffer()
    for first in range(0, 16, 4):
        buffer.insert(rows(first, 4))
    start = buffer.state()
    claims = [buffer.claim(0, seed=0) for _ in range(3)]
    buffer.commit(claims[0])  # type: ignore[arg-type]
    middle = buffer.state()
    buffer.commit(claims[1])  # type: ignore[arg-type]
    assert buffer.trim([start, middle]) == 0
    assert buffer.trim([middle]) == 4
    assert buffer.trim() == 4
    assert tasks_of(buffer, claims[2]) == [8, 9, 10, 11]
    buffer.commit(claims[2])  # type: ignore[arg-type]
    assert buffer.trim(keep_bytes=10**9) == 0
    assert buffer.trim() == 4
    assert buffer.insert(rows(0, 12)) == 0
    again = open_buffer()
    assert again.state()["live"] == [[12, 4, 0, 1.0]]


def test_rows_that_vanished_from_the_log_are_reported(
    open_buffer: Open, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    buffer = open_buffer()
    buffer.insert(rows(0, 4))
    buffer.insert(rows(4, 4))
    saved = buffer.state()
    (tmp_path / "experiences" / f"{0:012d}.arrow").unlink()
    again = open_buffer()
    again.load_state(saved)
    assert again.counters["lost"] == 4
    assert "gone from the log" in caplog.text
    assert again.state()["live"] == [[4, 4, 0, 1.0]]


def test_numbers_are_never_given_twice_even_if_log_and_catalog_are_lost(open_buffer: Open, tmp_path: Path) -> None:
    buffer = open_buffer()
    buffer.insert(rows(0, 4))
    saved = buffer.state()
    for path in [*tmp_path.glob("experiences/*"), *tmp_path.glob("catalog.sqlite*")]:
        path.unlink()
    again = open_buffer()
    again.load_state(saved)
    again.insert(rows(10, 2))
    assert again.state()["live"] == [[4, 2, 0, 1.0]]


class FullOnce(FileSystem):
    """A disk that is full for one write."""

    def __init__(self) -> None:
        self.is_full = False

    def write_file(self, path: Path, pieces: Any) -> None:
        if self.is_full:
            self.is_full = False
            raise OSError(28, "No space left on device")
        super().write_file(path, pieces)


def test_full_disk_acknowledges_nothing_and_the_same_insert_works_later(open_buffer: Open) -> None:
    disk = FullOnce()
    buffer = open_buffer(fs=disk)
    buffer.insert(rows(0, 2))
    disk.is_full = True
    with pytest.raises(DiskFull):
        buffer.insert(rows(2, 3))
    assert len(buffer) == 2
    assert buffer.insert(rows(2, 3)) == 3
    assert buffer.state()["live"] == [[0, 5, 0, 1.0]]
    assert buffer.counters["duplicates"] == 0


def test_memory_and_state_stay_flat_over_many_rows(open_buffer: Open) -> None:
    buffer = open_buffer(batch_rows=64, max_staleness=1)
    sizes = []
    for update in range(120):
        buffer.insert(rows(64 * update, 64, version=update))
        claim = buffer.claim(update, seed=update)
        assert claim is not None
        buffer.commit(claim)
        if update % 20 == 19:
            buffer.trim([buffer.state()])
            columns = sum(column.nbytes for column in buffer._window._columns.values())
            sizes.append((columns, len(json.dumps(buffer.state())) // 100, len(buffer._log)))
    assert len(set(sizes[1:])) == 1
