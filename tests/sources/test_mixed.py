"""A batch is rollouts, transformed, with expert rows, pairs and imports beside them; nothing counts before its commit."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ludus.buffer import EpochStore, GatheredRows, GatheredWriter, ImportStore, put_into_inbox
from ludus.experience import Pipeline
from ludus.experience.transforms import RoleAdvantage
from ludus.records import Experiences
from ludus.sources.mixed import MixedSource
from ludus.sources.offline import OfflineRows
from ludus.sources.protocol import Batch, BatchSource
from ludus.storage.catalog import Catalog
from ludus.testing.experiences import sample_experiences


class Claimed:
    def __init__(self, rows: list[int]) -> None:
        self.rows = np.array(rows)


class Rollouts(BatchSource):
    """The same rows again and again, numbered from `first` on."""

    def __init__(self, rows: Experiences, first: int = 0) -> None:
        self.rows = rows
        self.first = first
        self.committed: list[Batch] = []

    def next(self) -> Batch:
        numbers = list(range(self.first, self.first + len(self.rows)))
        return Batch(experiences=self.rows, claims={"rows": Claimed(numbers)})

    def commit(self, batch: Batch) -> None:
        self.committed.append(batch)

    def state(self) -> dict[str, Any]:
        return {"buffer": len(self.committed)}

    def load_state(self, state: Mapping[str, Any]) -> None:
        pass


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = Catalog(tmp_path / "catalog.sqlite")
    yield opened
    opened.close()


def gathered(folder: Path, rows: Experiences) -> GatheredRows:
    writer = GatheredWriter(folder.with_name(f".{folder.name}"), folder)
    writer.add(rows)
    writer.finish({})
    return GatheredRows(folder)


def tasks(rows: Experiences) -> list[int]:
    return [int(task) for task in rows.sequences["task"]]


def test_batch_has_rows_of_all_sources_told_apart_by_their_source(tmp_path: Path, catalog: Catalog) -> None:
    imports = ImportStore(tmp_path, catalog)
    couples = sample_experiences([2] * 4, tokens=True).replace(
        sequences={"pair": np.arange(4) // 2, "chosen": np.arange(4) % 2 == 0}
    )
    pairs = EpochStore("pairs", [gathered(tmp_path / "pairs", couples)], seed=0, rows_per_item=2)
    experts = gathered(tmp_path / "expert", sample_experiences([2] * 3, tokens=True))
    expert = EpochStore("expert", [experts, imports.expert], seed=0)
    left = sample_experiences([2] * 2, tokens=True)
    put_into_inbox(tmp_path / "inbox", left.replace(sequences={"source": np.array(["on_policy", "rejected"], object)}))
    taken: list[int] = []
    mixed = MixedSource(
        Rollouts(sample_experiences([2] * 3, tokens=True)),
        [OfflineRows(expert, 2), OfflineRows(pairs, 1), OfflineRows(imports, 4)],
        Pipeline(),
        take_inbox=lambda: taken.append(imports.take_inbox()),
    )
    batch = mixed.next()
    assert batch is not None
    assert taken == [2]
    rows = batch.experiences
    assert Counter(rows.sequences["source"]) == {"on_policy": 4, "expert": 2, "pairs": 2}
    assert rows.sequences["source"].tolist()[:3] == ["on_policy"] * 3
    paired = rows.sequences["source"] == "pairs"
    assert set(rows.sequences["pair"][~paired]) == {-1}
    assert rows.sequences["chosen"].sum() == 1
    assert imports.rejected == {(1, 0, 0)}
    mixed.commit(batch)
    assert mixed.metrics()["buffer/expert_epochs"] == pytest.approx(2 / 3)
    saved = json.loads(json.dumps(mixed.state()))
    following = mixed.next()
    mixed.load_state(saved)
    again = mixed.next()
    assert following is not None
    assert again is not None
    assert tasks(again.experiences) == tasks(following.experiences)
    np.testing.assert_array_equal(again.experiences.steps["action"], following.experiences.steps["action"])


def test_without_other_sources_and_transforms_the_rows_stay_the_very_same() -> None:
    rows = sample_experiences((2, 3))
    batch = MixedSource(Rollouts(rows), [], Pipeline()).next()
    assert batch is not None
    assert batch.experiences is rows


def test_batch_may_be_expert_rows_alone(tmp_path: Path) -> None:
    store = EpochStore("expert", [gathered(tmp_path / "expert", sample_experiences([2] * 3))], seed=0)
    batch = MixedSource(Rollouts(Experiences.empty()), [OfflineRows(store, 2)], Pipeline()).next()
    assert batch is not None
    assert batch.experiences.sequences["source"].tolist() == ["expert", "expert"]


def test_transforms_remember_committed_batches_only() -> None:
    rows = sample_experiences([2] * 4, tokens=True)
    mixed = MixedSource(Rollouts(rows), [], Pipeline(final=[("role_advantage", RoleAdvantage())]))
    before = mixed.state()["pipeline"]
    first, ahead = mixed.next(), mixed.next()
    assert first is not None
    assert ahead is not None
    assert mixed.state()["pipeline"] == before
    mixed.commit(first)
    after = json.loads(json.dumps(mixed.state()))
    assert after["pipeline"] != before
    resumed = MixedSource(Rollouts(rows), [], Pipeline(final=[("role_advantage", RoleAdvantage())]))
    resumed.load_state(after)
    again = resumed.next()
    assert again is not None
    np.testing.assert_array_equal(
        again.experiences.sequences["shaped_reward"], ahead.experiences.sequences["shaped_reward"]
    )


def test_rows_that_an_older_version_transformed_on_arrival_are_not_transformed_again() -> None:
    rows = sample_experiences([2] * 4, tokens=True)
    mixed = MixedSource(
        Rollouts(rows, first=10), [], Pipeline(final=[("role_advantage", RoleAdvantage())]), raw_from=lambda: 12
    )
    mixed.load_state({})
    batch = mixed.next()
    assert batch is not None
    assert tasks(batch.experiences) == tasks(rows)
    shaped, was = batch.experiences.sequences["shaped_reward"], rows.sequences["shaped_reward"]
    np.testing.assert_array_equal(shaped[:2], was[:2])
    assert mixed.state()["raw_from"] == 12
