"""Replay: rows rest between uses, groups stay whole, priorities say what comes more often, and people may discard."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ludus.buffer import SAMPLERS, Buffer, Claim
from ludus.config import BufferConfig
from ludus.records import Experiences
from ludus.storage.catalog import Catalog
from ludus.storage.segments import SegmentLog
from ludus.testing.experiences import sample_experiences

Open = Callable[..., Buffer]


@pytest.fixture
def open_buffer(tmp_path: Path) -> Iterator[Open]:
    catalogs: list[Catalog] = []

    def open_it(*, batch_rows: int = 4, max_staleness: int | None = None, **config: Any) -> Buffer:
        for catalog in catalogs:
            catalog.close()
        catalogs[:] = [Catalog(tmp_path / "catalog.sqlite")]
        log = SegmentLog(tmp_path, "experiences", catalogs[0])
        chosen = BufferConfig.model_validate(config)
        return Buffer(log, chosen, batch_rows=batch_rows, concurrency=100, max_staleness=max_staleness)

    yield open_it
    for catalog in catalogs:
        catalog.close()


def rows(first: int, count: int, *, version: int = 0, group: int = 0, rewards: Any = None) -> Experiences:
    """With `group`, that many rows that follow each other are one."""
    tasks = range(first, first + count)
    made = sample_experiences([2] * count, tasks=tasks, version=version, seed=first, rewards=rewards)
    names = [f"g{task // group}" if group else "" for task in tasks]
    return made.replace(sequences={"group": np.array(names, object)})


def train(buffer: Buffer, *, version: int = 0, seed: int = 0) -> list[int]:
    claim = buffer.claim(version, seed=seed)
    assert claim is not None
    buffer.commit(claim)
    return [int(row) for row in claim.rows]


# -- cooldown ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", sorted(SAMPLERS))
@pytest.mark.parametrize("cooldown", [0, 1, 2, 3])
def test_row_sits_out_as_many_batches_as_configured(open_buffer: Open, sampler: str, cooldown: int) -> None:
    buffer = open_buffer(reuse=9, cooldown=cooldown, sampler=sampler, capacity=1000)
    buffer.insert(rows(0, 4 * (cooldown + 1)))
    batches = [set(train(buffer, seed=seed)) for seed in range(3 * (cooldown + 1))]
    for place, batch in enumerate(batches):
        for other in batches[place + 1 : place + 1 + cooldown]:
            assert not batch & other
    if cooldown:
        assert batches[cooldown + 1] == batches[0]


def test_rows_in_an_open_claim_rest_too(open_buffer: Open) -> None:
    buffer = open_buffer(reuse=4, cooldown=1)
    buffer.insert(rows(0, 8))
    first, second = buffer.claim(0, seed=0), buffer.claim(0, seed=0)
    assert first is not None
    assert second is not None
    assert not set(first.rows) & set(second.rows)
    assert buffer.claim(0, seed=0) is None
    buffer.abandon(first)
    third = buffer.claim(0, seed=0)
    assert third is not None
    assert third.rows.tolist() == first.rows.tolist()


def test_explorers_are_asked_for_more_while_all_rows_rest(open_buffer: Open) -> None:
    buffer = open_buffer(reuse=9, cooldown=3, max_staleness=0)
    buffer.insert(rows(0, 4))
    train(buffer)
    assert buffer.claim(0, seed=0) is None
    assert buffer.may_explore(0) >= 4
    buffer.insert(rows(4, 4))
    assert train(buffer) == [4, 5, 6, 7]


def test_rest_survives_a_crash(open_buffer: Open) -> None:
    buffer = open_buffer(reuse=9, cooldown=2, capacity=100)
    buffer.insert(rows(0, 12))
    train(buffer)
    saved = json.loads(json.dumps(buffer.state(), allow_nan=False))
    expected = [train(buffer) for _ in range(5)]
    again = open_buffer(reuse=9, cooldown=2, capacity=100)
    again.load_state(saved)
    assert [train(again) for _ in range(5)] == expected
    old = {name: value for name, value in saved.items() if name not in ("resting", "batches")}
    again.load_state(old)  # a checkpoint of an older ludus knows of no rest
    assert train(again) == [0, 1, 2, 3]


# -- groups ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", sorted(SAMPLERS))
def test_groups_come_whole_even_when_some_lost_rows(open_buffer: Open, sampler: str) -> None:
    buffer = open_buffer(batch_rows=8, sampler=sampler, capacity=1000)
    whole = rows(0, 64, group=4)
    keep = [row for row in range(64) if row % 7]  # as operators would leave them
    buffer.insert(whole.take(keep))
    sizes = Counter(row // 4 for row in keep)
    seen: Counter[int] = Counter()
    seed = 0
    while claim := buffer.claim(0, seed=seed):
        assert 8 <= len(claim) < 8 + 4
        groups = Counter(int(task) // 4 for task in buffer.read(claim).sequences["task"])
        assert all(count == sizes[group] for group, count in groups.items())
        seen += groups
        buffer.commit(claim)
        seed += 1
    assert all(seen[group] in (0, sizes[group]) for group in sizes)
    assert sum(seen.values()) > 64 - 10 - 8


def test_oldest_group_comes_first_with_fifo(open_buffer: Open) -> None:
    buffer = open_buffer(batch_rows=4)
    buffer.insert(rows(0, 12, group=3))
    assert train(buffer) == [0, 1, 2, 3, 4, 5]
    assert train(buffer) == [6, 7, 8, 9, 10, 11]


def test_rows_with_and_without_groups_share_a_batch(open_buffer: Open) -> None:
    buffer = open_buffer(batch_rows=4)
    buffer.insert(rows(0, 2))
    buffer.insert(rows(2, 4, group=2))
    assert train(buffer) == [0, 1, 2, 3]


def test_groups_are_the_same_after_a_restart(open_buffer: Open) -> None:
    buffer = open_buffer(batch_rows=4, sampler="uniform", capacity=100)
    buffer.insert(rows(0, 24, group=3))
    saved = buffer.state()
    expected = train(buffer, seed=5)
    again = open_buffer(batch_rows=4, sampler="uniform", capacity=100)
    again.load_state(saved)
    assert train(again, seed=5) == expected


# -- priorities --------------------------------------------------------------------------------------------------------


def draw_often(buffer: Buffer, times: int, version: int = 0) -> Counter[int]:
    drawn: Counter[int] = Counter()
    for seed in range(times):
        claim = buffer.claim(version, seed=seed)
        assert claim is not None
        drawn.update(claim.rows.tolist())
        buffer.abandon(claim)
    return drawn


def test_every_use_and_every_version_behind_halves_the_chance(open_buffer: Open) -> None:
    buffer = open_buffer(batch_rows=1, sampler="prioritised", priority_exponent=1.0, reuse=5, capacity=100)
    buffer.insert(rows(0, 1, version=0))
    buffer.insert(rows(1, 1, version=1))
    drawn = draw_often(buffer, 3000, version=1)
    assert drawn[1] / 3000 == pytest.approx(2 / 3, abs=0.04)
    while True:  # until the newer one has been used once
        claim = buffer.claim(1, seed=3)
        assert isinstance(claim, Claim)
        if claim.rows.tolist() == [1]:
            buffer.commit(claim)
            break
        buffer.abandon(claim)
        buffer._window["priority"][0] = 1e-6
    buffer._window["priority"][:] = 1.0
    assert draw_often(buffer, 3000, version=1)[1] / 3000 == pytest.approx(0.5, abs=0.04)


def test_surprising_rewards_come_more_often(open_buffer: Open) -> None:
    config = {"sampler": "prioritised", "priority": "surprise", "priority_exponent": 1.0, "capacity": 100}
    buffer = open_buffer(batch_rows=2, **config)
    rewards = (1.0, 1.0, 1.0, 0.0)
    buffer.insert(rows(0, 4, group=2, rewards=rewards))
    assert buffer.state()["live"] == [[0, 2, 0, 1e-6], [2, 2, 0, 0.5]]
    assert draw_often(buffer, 200)[2] >= 199
    again = open_buffer(batch_rows=2, **config)  # from the log alone
    assert again.state()["live"] == buffer.state()["live"]


# -- by hand -----------------------------------------------------------------------------------------------------------


def test_discarded_rows_are_in_no_batch_any_more(open_buffer: Open) -> None:
    buffer = open_buffer(reuse=2)
    buffer.insert(rows(0, 6))
    saved = buffer.state()
    assert buffer.discard([(1, 0, 0), (3, 0, 0), (99, 0, 0), (2, 1, 0)]) == 2
    assert buffer.discard([]) == 0
    assert train(buffer) == [0, 2, 4, 5]
    assert buffer.counters["discarded"] == 2
    buffer.load_state(saved)  # which does not know of it, so it is said again
    assert buffer.discard({(1, 0, 0)}) == 1
