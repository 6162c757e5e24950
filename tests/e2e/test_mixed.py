"""Games and tasks in one run: the example, cut, with a model that says anything."""

from collections import Counter
from pathlib import Path

import pytest

from ludus import SingleRun, load_config
from ludus.records import Episode
from ludus.storage.arrow import episodes_from_table
from ludus.storage.jsonl import read_jsonl
from ludus.storage.segment_reader import SegmentReader

EXAMPLE = Path(__file__).parents[2] / "examples/mixed/tictactoe_arithmetic.yaml"
GAME, SUMS, HELD_OUT = "open_spiel:tic_tac_toe", "tasks:sums", "tasks:held_out"
CUT = [
    "warm_start.games=40",
    "explore.games_in_flight=16",
    "explore.group=4",
    "train.steps=1200",
    "train.batch_episodes=32",
    "train.minibatch=16",
    "buffer.expert.rows=8",
    "evaluate.every=600",
    "evaluate.games=2",
    "evaluate.final_games=2",
    "telemetry.every_s=0",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixed") / "run"
    assert SingleRun(load_config(EXAMPLE, CUT), folder).run_to_end().stage == "done"
    return folder


@pytest.fixture(scope="module")
def episodes(run: Path) -> list[Episode]:
    return [each for _, table in SegmentReader(run / "episodes").scan() for each in episodes_from_table(table)]


def test_games_and_tasks_have_their_shares_and_groups(episodes: list[Episode]) -> None:
    trained = sorted((each.task for each in episodes if each.task.purpose == "train"), key=lambda task: task.id)
    games = [task.game for task in trained]
    assert games.count(GAME) == pytest.approx(len(games) / 2, abs=4)
    assert set(games) == {GAME, SUMS}
    for first in range(0, len(trained), 4):
        assert len({(task.game, task.group, task.game_seed) for task in trained[first : first + 4]}) == 1


def test_each_has_its_own_prompt_and_sampling_and_rewards(run: Path, episodes: list[Episode]) -> None:
    sums = [each for each in episodes if each.task.game == SUMS and not each.error]
    assert all(each.move_texts[0] == f"{each.task.inputs['prompt']} =" for each in sums)
    assert all(set(each.rewards) == {"numeric", "short"} for each in sums)
    held_out = [each for each in episodes if each.task.game == HELD_OUT]
    assert held_out
    assert all(set(each.rewards) == {"numeric"} for each in held_out if not each.error)
    played = [each for each in episodes if each.task.game == GAME and not each.error]
    assert all(not each.rewards and len(each.returns) == 2 for each in played)
    lengths = {GAME: 0, SUMS: 0}
    for _, table in SegmentReader(run / "experiences").scan():
        for row in table.to_pylist():
            assert row["game"] == GAME or sum(row["mask"]) <= 8
            lengths[row["game"]] += sum(row["mask"])
    assert min(lengths.values()) > 0


def test_both_are_measured_and_told_apart(run: Path, episodes: list[Episode]) -> None:
    metrics: dict[str, object] = {}
    for line in read_jsonl(run / "metrics.jsonl"):
        metrics |= line
    for name in (
        "explore/rewards/terse/scored",
        "evaluate/random/score",
        "evaluate/held_out/success",
        "league/mu",
        "explore/workflow/attempts",
    ):
        assert name in metrics, name
    assert {f"explore/{GAME}/invalid_moves", f"explore/{SUMS}/reward"} <= metrics.keys()
    measured = [each.task for each in episodes if each.task.purpose == "evaluate"]
    rows = Counter(task.inputs["row"] for task in measured if task.game == HELD_OUT)
    assert len(set(rows.values())) == 1, "each evaluation attempts every held-out row"
    assert {task.game for task in measured} == {GAME, HELD_OUT}
