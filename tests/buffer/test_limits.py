"""The rate limiter: both sides wait, neither for ever."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ludus.buffer import Limits, Stock, make_limits, may_claim, rows_wanted
from ludus.config import BufferConfig
from ludus.errors import ConfigError


def limits(**changed: object) -> Limits:
    values = {
        "batch_rows": 8,
        "capacity": 64,
        "min_size": 8,
        "reuse": 1,
        "samples_per_insert": 1.0,
        "max_staleness": 2,
    }
    return Limits(**{**values, **changed})  # type: ignore[arg-type]


def stock(rows: int = 0, *, inserted: int | None = None, sampled: int = 0, claims: int = 0, reuse: int = 1) -> Stock:
    return Stock(
        size=rows,
        eligible=rows,
        slots=rows * reuse,
        inserted=rows + sampled if inserted is None else inserted,
        sampled=sampled,
        claims=claims,
    )


def test_trainer_waits_for_a_whole_batch() -> None:
    assert not may_claim(limits(), stock(7))
    assert may_claim(limits(), stock(8))


def test_minimum_size_counts_before_the_first_batch_only() -> None:
    assert not may_claim(limits(min_size=20), stock(19))
    assert may_claim(limits(min_size=20), stock(20))
    assert may_claim(limits(min_size=20), stock(8, sampled=8))


def test_trainer_waits_for_its_share_of_inserts() -> None:
    generous = limits(reuse=4, samples_per_insert=2.0)
    assert may_claim(generous, stock(8, inserted=8, sampled=8, reuse=3))
    assert not may_claim(generous, stock(8, inserted=8, sampled=16, reuse=2))


@given(staleness=st.integers(0, 5), batches=st.integers(0, 20), accepted=st.integers(0, 200), claims=st.integers(0, 2))
def test_admission_is_the_known_rule_when_nothing_is_dropped(
    staleness: int, batches: int, accepted: int, claims: int
) -> None:
    """capacity = (S + version + 1) * batch - accepted, where a batch in training has not become a version yet."""
    batch = 8
    sampled = batch * (batches + claims)
    if accepted < sampled:
        return
    left = accepted - sampled
    found = rows_wanted(
        limits(max_staleness=staleness, capacity=10**6),
        Stock(size=left, eligible=left, slots=left, inserted=accepted, sampled=sampled, claims=claims),
    )
    expected = (staleness + batches + 1) * batch - accepted
    if claims or left >= batch:
        assert found == max(expected, 0)
    else:
        assert found == max(expected, batch - left)


@given(st.integers(0, 3), st.integers(1, 5), st.data())
def test_what_is_played_can_be_trained_on_before_it_is_too_old(
    staleness: int, interval: int, data: st.DataObject
) -> None:
    """With nothing in stock, rows are wanted for the updates until the version after the last that may use them."""
    unpublished = data.draw(st.integers(0, interval - 1))
    some = Stock(size=0, eligible=0, slots=0, inserted=0, sampled=0, claims=0, unpublished=unpublished)
    found = rows_wanted(limits(max_staleness=staleness, capacity=10**6, interval=interval), some)
    versions = [(unpublished + update) // interval for update in range(1000)]
    assert found == 8 * sum(version <= staleness for version in versions)


def test_explorers_stop_when_the_window_is_full() -> None:
    assert rows_wanted(limits(max_staleness=None), stock(64)) == 0
    assert rows_wanted(limits(max_staleness=None), stock(60)) == 4
    assert rows_wanted(limits(max_staleness=100), stock(60)) == 4


CONFIGS = st.builds(
    lambda batch, extra, more, reuse, ratio, staleness: limits(
        batch_rows=batch,
        min_size=batch + extra,
        capacity=batch + extra + more,
        reuse=reuse,
        samples_per_insert=ratio,
        max_staleness=staleness,
    ),
    st.integers(1, 20),
    st.integers(0, 20),
    st.integers(0, 50),
    st.integers(1, 5),
    st.floats(0.05, 8.0),
    st.none() | st.integers(0, 4),
)


@given(CONFIGS, st.data())
def test_some_side_may_always_proceed(config: Limits, data: st.DataObject) -> None:
    size = data.draw(st.integers(0, config.capacity))
    slots = data.draw(st.integers(size, size * config.reuse))
    sampled = data.draw(st.integers(0, 10**6))
    some = Stock(
        size=size, eligible=size, slots=slots, inserted=data.draw(st.integers(size, 10**6)), sampled=sampled, claims=0
    )
    assert may_claim(config, some) or rows_wanted(config, some) >= 1


@given(CONFIGS, st.integers(1, 6))
def test_alternating_sides_make_batches_for_ever_and_keep_the_ratio(config: Limits, episode_rows: int) -> None:
    """Rows are handed in as asked for, whole episodes at a time; every batch must come within a bounded wait."""
    uses: list[int] = []
    inserted = sampled = 0
    for _ in range(12):
        for _ in range(10_000):
            some = Stock(
                size=len(uses),
                eligible=len(uses),
                slots=sum(config.reuse - used for used in uses),
                inserted=inserted,
                sampled=sampled,
                claims=0,
            )
            if may_claim(config, some):
                break
            assert rows_wanted(config, some) >= 1
            uses = (uses + [0] * episode_rows)[-config.capacity :]
            inserted += episode_rows
        else:
            raise AssertionError("no batch in 10,000 episodes")
        uses = [used + (place < config.batch_rows) for place, used in enumerate(uses)]
        uses = [used for used in uses if used < config.reuse]
        sampled += config.batch_rows
        assert sampled <= config.samples_per_insert * inserted + 1e-6


def test_defaults_are_eight_batches_one_batch_and_the_reuse() -> None:
    found = make_limits(BufferConfig(reuse=3), batch_rows=10, max_staleness=1)
    assert (found.capacity, found.min_size, found.samples_per_insert) == (80, 10, 3.0)


def test_window_that_can_never_hold_a_batch_is_refused_with_both_keys() -> None:
    with pytest.raises(ConfigError) as caught:
        make_limits(BufferConfig(capacity=5, min_size=9), batch_rows=8, max_staleness=1)
    assert len(caught.value.problems) == 2
    assert all("buffer.capacity" in problem for problem in caught.value.problems)
