"""Episodes are found by what they are, page by page, whatever else lies in the folder."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.reports.made_runs import episode, make_run, record

from ludus.reports import episode_index
from ludus.reports.episode_index import EpisodeIndex, EpisodeQuery
from ludus.storage.run_directory import RunDirectory


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    made = make_run(tmp_path / "run")
    drawn = {"seats": ("main@4", "mcts-25@0"), "returns": (0.0, 0.0), "moves": (0, 1, 2, 3, 4, 5, 6, 7, 8)}
    lost = {"seats": ("main@4", "main@3"), "returns": (-1.0, 1.0)}
    record(made, [episode(0), episode(1, **drawn), episode(2, **lost), episode(3, error="it broke")], per_segment=2)
    return made


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, [3, 2, 1, 0]),
        ({"policy": "main"}, [3, 2, 1, 0]),
        ({"policy": "main@3"}, [3, 2, 0]),
        ({"policy": "main@3", "opponent": "main"}, [2]),
        ({"policy": "main@3", "result": "won"}, [2, 0]),
        ({"policy": "main@4", "result": "lost"}, [2]),
        ({"opponent": "mcts-25"}, [1]),
        ({"result": "drawn"}, [1]),
        ({"result": "failed"}, [3]),
        ({"min_length": 6}, [1]),
        ({"max_length": 5, "min_reward": 0.5}, [3, 0]),
        ({"max_reward": -0.5}, [2]),
        ({"group": "g1"}, [3, 2]),
        ({"task": 2}, [2]),
        ({"text": "e00001"}, [1]),
        ({"policy": "nobody"}, []),
    ],
)
def test_episodes_are_found_by_what_they_are(run: RunDirectory, query: dict[str, object], expected: list[int]) -> None:
    page = EpisodeIndex(run.path).search(EpisodeQuery(**query))  # type: ignore[arg-type]
    assert [row.task for row in page.rows] == expected
    assert (page.found, page.recorded, page.left_out) == (len(expected), 4, False)


def test_pages_follow_each_other_and_new_episodes_come_first(run: RunDirectory) -> None:
    index = EpisodeIndex(run.path)
    assert [row.task for row in index.search(EpisodeQuery(), offset=1, limit=2).rows] == [2, 1]
    record(run, [episode(number) for number in range(4, 6)])
    assert [row.task for row in index.search(EpisodeQuery(), limit=3).rows] == [5, 4, 3]


def test_a_damaged_segment_is_named_and_one_that_is_gone_is_gone(run: RunDirectory) -> None:
    index = EpisodeIndex(run.path)
    assert index.search(EpisodeQuery()).recorded == 4
    first, second = sorted(run.episodes.glob("*.arrow"))
    first.unlink()
    assert index.search(EpisodeQuery()).recorded == 2
    data = bytearray(second.read_bytes())
    data[200] ^= 0xFF
    second.write_bytes(data)
    found = EpisodeIndex(run.path).search(EpisodeQuery())
    assert found.recorded == 0
    assert "checksum" in found.problems[0]
    assert index.find("e00002") is None, "what was listed can be gone when it is opened"


def test_without_a_folder_there_is_nothing(tmp_path: Path) -> None:
    assert EpisodeIndex(tmp_path).search(EpisodeQuery()).recorded == 0


def test_what_is_beyond_the_bound_is_said_to_be_left_out(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episode_index, "MOST_KEPT", 2)
    page = EpisodeIndex(run.path).search(EpisodeQuery())
    assert ([row.task for row in page.rows], page.left_out) == ([3, 2], True)


def test_ten_thousand_episodes_are_listed_within_the_bound(tmp_path: Path) -> None:
    made = make_run(tmp_path / "run")
    record(made, [episode(number) for number in range(10_000)], per_segment=500)
    index = EpisodeIndex(made.path)
    assert index.search(EpisodeQuery(), limit=100).recorded == 10_000
    begin = time.process_time()
    assert index.search(EpisodeQuery(policy="main", result="won"), offset=5000, limit=100).found == 10_000
    assert index.find("e00017") is not None
    assert time.process_time() - begin < 0.5


def test_a_whole_episode_is_read_again(run: RunDirectory) -> None:
    found = EpisodeIndex(run.path).find("e00001")
    assert found is not None
    assert found.length == 9
    newest = EpisodeIndex(run.path).episodes(EpisodeQuery(policy="main@4"), most=1)
    assert [each.id for each in newest] == ["e00002"]
