"""Whole runs in which games, workers or files misbehave: what is lost is what misbehaved, and it is said."""

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from ludus import SingleRun, parse_config
from ludus.errors import LudusError, RolloutError, WorkerError
from ludus.runs.driver import Status
from ludus.storage.catalog import Catalog
from ludus.storage.checkpoints import CheckpointStore
from ludus.storage.jsonl import read_jsonl

PLUGIN = str(Path(__file__).parent / "plugins" / "bad_games.py")
TEXT = """
name: fire
games: [{game}]
topology: split
policy: {{network: {{kind: mlp, hidden: [8]}}}}
explore: {{games_in_flight: 16, workers: 1, deadline_s: {deadline_s}}}
train: {{steps: {steps}, batch_episodes: {batch}, minibatch: 64, epochs: 1}}
evaluate: {{against: [random], games: 4, final_games: 4}}
telemetry: {{tensorboard: false, every_s: 0}}
"""


def config(game: str, *, steps: int = 400, batch: int = 32, deadline_s: float = 60.0) -> str:
    return TEXT.format(game=game, steps=steps, batch=batch, deadline_s=deadline_s)


ONE_BAD_TASK = 31
"""Of so many tasks from the first on, one has a seed with which a game misbehaves."""


def run(tmp_path: Path, text: str) -> Status:
    return SingleRun(parse_config(text, "fire.yaml"), tmp_path / "run", plugins=[PLUGIN]).run_to_end()


def events(tmp_path: Path, kind: str) -> list[dict[str, Any]]:
    return [event for event in read_jsonl(tmp_path / "run" / "events.jsonl") if event["event"] == kind]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which nothing went wrong. Read only: `damage` gives a copy."""
    path = tmp_path_factory.mktemp("finished")
    assert run(path, config("bad_none")).stage == "done"
    return path / "run"


@pytest.fixture
def damaged(tmp_path: Path, finished: Path) -> Path:
    """A copy of the finished run, to be damaged."""
    shutil.copytree(finished, tmp_path / "run", symlinks=True)
    return tmp_path / "run"


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two games, of which one raises now and then and the other gives rewards that are no numbers."""
    path = tmp_path_factory.mktemp("troubled")
    assert run(path, config("bad_raises, bad_nan")).stage == "done"
    return path


def test_a_game_that_raises_costs_its_own_episodes(troubled: Path) -> None:
    failed = events(troubled, "episode_failed")
    assert failed
    assert "the dice fell off the table" in failed[0]["error"]
    with Catalog.open_readonly(troubled / "run" / "catalog.sqlite") as catalog:
        assert catalog.refused()["failed"] > 0


def test_rewards_that_are_not_finite_are_refused_and_counted(troubled: Path) -> None:
    with Catalog.open_readonly(troubled / "run" / "catalog.sqlite") as catalog:
        assert catalog.refused()["not_finite"] > 0


def test_a_game_that_crashes_its_worker_is_tried_twice_and_then_fails(tmp_path: Path) -> None:
    text = config("bad_crashes", steps=100, batch=ONE_BAD_TASK) + "runtime: {max_restarts: 100}\n"
    assert run(tmp_path, text).stage == "done"
    lost = events(tmp_path, "worker_lost")
    assert all("SIGSEGV" in event["reason"] for event in lost)
    failed = events(tmp_path, "episode_failed")
    assert {event["task"] for event in failed} <= {event["task"] for event in lost}
    assert "killed by SIGSEGV" in failed[0]["error"]


def test_a_game_that_hangs_is_ended_at_its_deadline_with_a_stack(tmp_path: Path) -> None:
    text = config("bad_hangs", steps=60, batch=ONE_BAD_TASK, deadline_s=1.0) + "runtime: {max_restarts: 100}\n"
    assert run(tmp_path, text).stage == "done"
    lost = events(tmp_path, "worker_lost")
    assert all("no progress for 1 s" in loss["reason"] for loss in lost)
    stacks = [loss["log_tail"] for loss in lost]  # on a busy machine some are lost elsewhere, starved
    assert any("bad_games.py" in stack and "in _misbehave" in stack for stack in stacks)


def test_workers_that_crash_without_end_stop_the_run_with_the_cause(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match=r"explorer-0 killed by SIGSEGV[\s\S]*max_restarts = 1"):
        run(tmp_path, config("bad_crashes_always") + "runtime: {max_restarts: 1}\n")


def test_a_batch_of_which_nothing_is_usable_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(RolloutError, match=r"none of the 32 episodes of update 1 can be trained on .*not_finite"):
        run(tmp_path, config("bad_nan_always"))


def test_a_damaged_checkpoint_is_replaced_by_the_one_before(
    tmp_path: Path, damaged: Path, caplog: pytest.LogCaptureFixture
) -> None:
    *_, before, newest = CheckpointStore(damaged / "checkpoints", keep=3).list()
    weights = damaged / "checkpoints" / f"{newest:08d}" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-7])
    with caplog.at_level(logging.WARNING):
        status = run(tmp_path, config("bad_none"))
    assert f"checkpoint {newest} is damaged" in caplog.text
    assert f"using checkpoint {before}" in caplog.text
    assert status.stage == "done"


def test_strict_resume_refuses_a_damaged_checkpoint(damaged: Path) -> None:
    newest = CheckpointStore(damaged / "checkpoints", keep=3).list()[-1]
    (damaged / "checkpoints" / f"{newest:08d}" / "manifest.json").write_text("{}")
    loop = SingleRun(parse_config(config("bad_none"), "fire.yaml"), damaged, plugins=[PLUGIN], strict_resume=True)
    with pytest.raises(LudusError, match="strict"):
        loop.run_to_end()


def test_a_torn_segment_is_quarantined_and_the_run_goes_on(tmp_path: Path, damaged: Path) -> None:
    segment = sorted((damaged / "experiences").glob("*.arrow"))[0]
    segment.write_bytes(segment.read_bytes()[: segment.stat().st_size // 2])
    assert run(tmp_path, config("bad_none", steps=800)).steps >= 800
    assert list((damaged / "quarantine").iterdir())
