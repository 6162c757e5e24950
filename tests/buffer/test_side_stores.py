"""Expert rows, pairs and imports beside the on-policy ones: each where it belongs, and the same after a crash."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ludus.buffer import (
    EpochStore,
    GatheredRows,
    GatheredWriter,
    ImportStore,
    put_into_inbox,
    waiting_in_inbox,
)
from ludus.buffer.epoch_store import Cursor, draw
from ludus.errors import CorruptRecord, LudusError, StorageError
from ludus.records import Experiences
from ludus.storage.arrow import experiences_to_table
from ludus.storage.catalog import Catalog
from ludus.storage.segments import SegmentLog
from ludus.testing.experiences import sample_experiences


class Shelf:
    """Rows in memory, numbered by their tasks."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def read(self, places: Any) -> Experiences:
        return sample_experiences([2] * len(places), tasks=list(places), tokens=True)


def tasks(rows: Experiences) -> list[int]:
    return [int(task) for task in rows.sequences["task"]] if len(rows) else []


# -- epochs ------------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 20), st.lists(st.integers(1, 30), min_size=1, max_size=12), st.integers(0, 2**63 - 1))
def test_every_row_comes_once_per_epoch_however_it_is_claimed(size: int, counts: list[int], seed: int) -> None:
    cursor, drawn = Cursor(), []
    for count in counts:
        places, cursor = draw(cursor, count, seed=seed, size=size)
        assert len(places) == count
        drawn += places.tolist()
    for start in range(0, len(drawn) - size + 1, size):
        assert sorted(drawn[start : start + size]) == list(range(size))
    whole, _ = draw(Cursor(), len(drawn), seed=seed, size=size)
    assert whole.tolist() == drawn


def test_epochs_and_seeds_differ() -> None:
    first = draw(Cursor(), 40, seed=0, size=20)[0].tolist()
    assert first[:20] != first[20:]
    assert draw(Cursor(), 20, seed=1, size=20)[0].tolist() != first[:20]
    with pytest.raises(LudusError, match="no rows"):
        draw(Cursor(), 1, seed=0, size=0)


def test_rows_that_are_added_join_with_the_next_epoch() -> None:
    growing = Shelf(0)
    store = EpochStore("expert", [Shelf(4), growing], seed=0)
    first = tasks(store.claim(2).experiences)
    growing.count = 3
    rest = tasks(store.claim(2).experiences)
    assert sorted(first + rest) == [0, 1, 2, 3]
    following = store.claim(7).experiences
    assert sorted(tasks(following)) == [0, 0, 1, 1, 2, 2, 3]  # shelves number their own rows
    assert len(store) == 7


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 9), st.lists(st.sampled_from(["claim", "commit", "save", "crash"]), max_size=40), st.integers(1, 5)
)
def test_a_crash_goes_back_to_the_checkpoint_and_the_committed_rows_are_those_of_an_unbroken_run(
    size: int, happenings: list[str], items: int
) -> None:
    def fresh() -> EpochStore:
        return EpochStore("expert", [Shelf(size)], seed=7, fingerprint="f")

    store, claims, trained = fresh(), [], list[int]()
    saved, saved_trained = json.dumps(store.state()), list[int]()
    for happening in happenings:
        if happening == "claim":
            claims.append(store.claim(items))
        elif happening == "commit" and claims:
            drawn = claims.pop(0)
            store.commit(drawn)
            trained += tasks(drawn.experiences)
        elif happening == "save":
            saved, saved_trained = json.dumps(store.state()), list(trained)
        elif happening == "crash":
            store, claims, trained = fresh(), [], list(saved_trained)
            store.load_state(json.loads(saved))
    unbroken = draw(Cursor(), len(trained), seed=store._seed, size=size)[0].tolist()
    assert trained == unbroken


def test_claims_are_committed_in_order_and_state_of_other_rows_is_refused() -> None:
    store = EpochStore("expert", [Shelf(5)], seed=0, fingerprint="a")
    first, second = store.claim(2), store.claim(2)
    with pytest.raises(LudusError, match="in the order"):
        store.commit(second)
    store.commit(first)
    assert store.metrics() == {"buffer/expert_epochs": pytest.approx(0.4)}
    for other in (EpochStore("expert", [Shelf(5)], seed=0, fingerprint="b"), EpochStore("expert", [Shelf(4)], seed=0)):
        with pytest.raises(StorageError, match="are not those that its checkpoint was made with"):
            other.load_state(store.state())


def test_pairs_stay_together_and_in_order() -> None:
    store = EpochStore("pairs", [Shelf(6)], seed=0, rows_per_item=2)
    assert len(store) == 3
    drawn = store.claim(3).experiences
    numbers = tasks(drawn)
    assert sorted(numbers) == list(range(6))
    assert all(
        first % 2 == 0 and second == first + 1 for first, second in zip(numbers[::2], numbers[1::2], strict=True)
    )
    assert set(drawn.sequences["source"]) == {"pairs"}


# -- gathered ----------------------------------------------------------------------------------------------------------


def write(folder: Path, parts: list[Experiences]) -> GatheredRows:
    writer = GatheredWriter(folder.parent / f".tmp-{folder.name}", folder)
    for part in parts:
        writer.add(part)
    writer.finish({"files": {}})
    return GatheredRows(folder)


def test_gathered_rows_are_there_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ludus.buffer.gathered.ELEMENTS_PER_SEGMENT", 6)
    parts = [sample_experiences([2, 2], tasks=[at, at + 1], tokens=True, seed=at) for at in range(0, 10, 2)]
    writer = GatheredWriter(tmp_path / ".tmp-x", tmp_path / "expert")
    writer.add(parts[0])
    assert not (tmp_path / "expert").exists()
    with pytest.raises(CorruptRecord):
        GatheredRows(tmp_path / "expert")
    rows = write(tmp_path / "expert", parts)
    assert len(list((tmp_path / "expert").glob("*.arrow"))) > 1
    assert len(rows) == 10
    assert tasks(rows.read([7, 0, 7, 3])) == [7, 0, 7, 3]
    assert write(tmp_path / "again", parts).fingerprint == rows.fingerprint
    assert write(tmp_path / "other", parts[::-1]).fingerprint != rows.fingerprint


def test_note_of_a_newer_ludus_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "expert", [sample_experiences((2,), tokens=True)])
    (tmp_path / "expert" / "rows.json").write_text('{"format": 2, "rows": 1}')
    with pytest.raises(CorruptRecord, match="not one that this ludus can read"):
        GatheredRows(tmp_path / "expert")


# -- imports -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog(tmp_path / "catalog.sqlite") as opened:
        yield opened


def decided(sources: list[str], groups: list[str] | None = None, first: int = 0) -> Experiences:
    count = len(sources)
    rows = sample_experiences([2] * count, tasks=range(first, first + count), tokens=True)
    return rows.replace(
        sequences={
            "source": np.array(sources, object),
            "group": np.array(groups or [""] * count, object),
            "episode": np.array([f"edit-{first + row}" for row in range(count)], object),
        }
    )


def test_decisions_arrive_once_and_go_where_they_belong(tmp_path: Path, catalog: Catalog) -> None:
    store = ImportStore(tmp_path, catalog)
    assert store.take_inbox() == 0
    rows = decided(["on_policy", "expert", "rejected", "on_policy"])
    path = put_into_inbox(tmp_path / "inbox", rows)
    assert put_into_inbox(tmp_path / "inbox", rows) == path
    assert waiting_in_inbox(tmp_path / "inbox") == [path]
    assert store.take_inbox() == 4
    assert waiting_in_inbox(tmp_path / "inbox") == []
    assert store.waiting == 2
    assert store.rejected == {(2, 0, 0)}
    assert tasks(store.expert.read([0])) == [1]
    put_into_inbox(tmp_path / "inbox", rows)
    assert store.take_inbox() == 0
    again = ImportStore(tmp_path, catalog)
    assert (again.waiting, len(again.expert), again.rejected) == (2, 1, {(2, 0, 0)})


def test_rows_that_older_runs_call_usual_are_on_policy(tmp_path: Path, catalog: Catalog) -> None:
    log = SegmentLog(tmp_path, "imports", catalog)
    log.append(experiences_to_table(decided(["usual", "expert"])))
    log.commit()
    put_into_inbox(tmp_path / "inbox", decided(["usual"], first=2))
    store = ImportStore(tmp_path, catalog)
    assert store.take_inbox() == 1
    assert store.claim(8).experiences.sequences["source"].tolist() == ["on_policy"] * 2


def test_damaged_file_in_the_inbox_is_moved_away(
    tmp_path: Path, catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    store = ImportStore(tmp_path, catalog)
    put_into_inbox(tmp_path / "inbox", decided(["on_policy"]))
    (tmp_path / "inbox" / "0.edits").write_bytes(b"not arrow")
    put_into_inbox(tmp_path / "inbox", decided(["strange"], first=5))
    assert store.take_inbox() == 1
    assert waiting_in_inbox(tmp_path / "inbox") == []
    assert "unknown source 'strange'" in caplog.text
    assert len(list((tmp_path / "quarantine").glob("*.edits"))) == 2


def test_imported_rows_are_used_once_with_their_groups_whole(tmp_path: Path, catalog: Catalog) -> None:
    store = ImportStore(tmp_path, catalog)
    put_into_inbox(tmp_path / "inbox", decided(["on_policy"] * 7, ["a", "a", "a", "b", "b", "", ""]))
    store.take_inbox()
    claims = [store.claim(4) for _ in range(4)]
    assert [tasks(claim.experiences) for claim in claims] == [[0, 1, 2], [3, 4, 5, 6], [], []]
    store.commit(claims[0])
    saved = store.state()
    store.commit(claims[1])
    with pytest.raises(LudusError, match="in the order"):
        store.commit(claims[3])
    store.load_state(saved)
    assert tasks(store.claim(1).experiences) == [3, 4]  # a group larger than asked for still comes whole
