"""Which pool members are served, and how good they are said to be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ludus.config import LanguageModelConfig, LeagueConfig
from ludus.http.chat_request import BadRequest
from ludus.league import Pool
from ludus.lm.language_shape import LanguageModelShape
from ludus.policies import PolicyStore
from ludus.records import EpisodeId, Match, PolicyName, PolicyRef, PolicyVersion
from ludus.serve.members import Members
from ludus.storage.catalog import Catalog

SHAPE = LanguageModelShape(model=LanguageModelConfig(path="m"), critic=False, games=("g",))


def main(version: int) -> PolicyRef:
    return PolicyRef(name=PolicyName("main"), version=PolicyVersion(version))


def publish(store: PolicyStore, version: int) -> None:
    store.publish(main(version), {"x.lora_A.weight": np.full((1, 2), version, np.float32)}, SHAPE, step=version)


@pytest.fixture
def store(tmp_path: Path) -> PolicyStore:
    store = PolicyStore(tmp_path / "policies")
    publish(store, 0)
    publish(store, 7)
    return store


def names(members: Members) -> list[Any]:
    return [card["id"] for card in members.cards()]


def test_a_version_is_there_from_the_moment_it_is_published(store: PolicyStore) -> None:
    members = Members(store, "main")
    assert names(members) == ["main", "main@7", "main@0"]
    assert members.find("main") == main(7)
    publish(store, 8)
    assert names(members) == ["main", "main@8", "main@7", "main@0"]
    assert members.find("main") == main(8)


def test_a_version_that_was_pruned_is_gone(store: PolicyStore) -> None:
    members = Members(store, "main")
    store.prune("main", keep=[])
    assert names(members) == ["main", "main@7"]
    with pytest.raises(BadRequest, match="no model 'main@0' here; there are: main, main@7"):
        members.find("main@0")


@pytest.mark.parametrize("model", ["main@", "main@x", "main@00000007", "main@-1", "../main", "", "other@7", "main@1"])
def test_only_names_that_are_listed_are_found(store: PolicyStore, model: str) -> None:
    with pytest.raises(BadRequest) as caught:
        Members(store, "main").find(model)
    assert caught.value.status == 404


def test_ratings_come_from_the_runs_catalog(store: PolicyStore, tmp_path: Path) -> None:
    random = PolicyRef(name=PolicyName("random"))
    pool = Pool(LeagueConfig(), main(7))
    pool.add_snapshot(main(0), step=0)
    for number in range(10):
        pool.record(Match(id=EpisodeId(str(number)), game="g", seats=(main(0), random), returns=(1.0, -1.0)))
    with Catalog(tmp_path / "catalog.sqlite") as catalog:
        pool.write(catalog)
    cards = {card["id"]: card["ludus"] for card in Members(store, "main", catalog=tmp_path / "catalog.sqlite").cards()}
    assert cards["main@0"]["rating"]["games"] == 10
    assert cards["main@0"]["rating"]["mu"] > 25
    assert cards["main@0"]["rating"]["elo"] > 1000
    unknown = {"elo": None, "elo_error": None, "mu": 25.0, "sigma": pytest.approx(25 / 3), "games": 0}
    assert cards["main"] == {"version": 7, "rating": unknown}
    assert cards["main@7"]["rating"] is None


def test_without_a_catalog_there_are_no_ratings(store: PolicyStore, tmp_path: Path) -> None:
    cards = Members(store, "main", catalog=tmp_path / "none.sqlite").cards()
    assert [card["ludus"]["rating"] for card in cards] == [None] * 3


def test_a_run_that_has_published_nothing_lists_nothing(tmp_path: Path) -> None:
    members = Members(PolicyStore(tmp_path / "empty"), "main")
    assert members.cards() == []
    with pytest.raises(BadRequest, match="there are: none yet"):
        members.find("main")
