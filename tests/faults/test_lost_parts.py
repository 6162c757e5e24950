"""Parts of a run are gone or damaged: it heals with a word or refuses with a remedy, and never starts over silently."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ludus import SingleRun, parse_config
from ludus.errors import IncompleteCheckpoint
from ludus.runs.driver import Status
from ludus.storage.atomic import directory_hashes
from ludus.storage.checkpoints import CheckpointStore
from ludus.storage.jsonl import read_jsonl

TEXT = """
name: parts
games: [open_spiel:tic_tac_toe]
topology: split
policy: {network: {kind: mlp, hidden: [8]}}
explore: {games_in_flight: 16, workers: 1}
train: {steps: STEPS, batch_episodes: 32, minibatch: 64, epochs: 1}
league: {opponents: [{kind: mirror}, {kind: pfsp}], snapshot_every: 100}
evaluate: {against: [random], games: 2, final_games: 2}
telemetry: {tensorboard: false, every_s: 0}
"""
STEPS, MORE_STEPS = 300, 600


def make(run: Path, steps: int = MORE_STEPS, **options: Any) -> SingleRun:
    return SingleRun(parse_config(TEXT.replace("STEPS", str(steps)), "parts.yaml"), run, **options)


def resume(run: Path, **options: Any) -> Status:
    return make(run, **options).run_to_end()


def events(run: Path, kind: str) -> list[dict[str, Any]]:
    return [event for event in read_jsonl(run / "events.jsonl") if event["event"] == kind]


@pytest.fixture(scope="session")
def whole(make_once: Callable[[str, Callable[[Path], None]], Path]) -> Path:
    """A run that is done, and whole. Read only."""

    def train(folder: Path) -> None:
        assert make(folder / "run", STEPS).run_to_end().stage == "done"

    return make_once("whole_parts", train) / "run"


@pytest.fixture
def run(tmp_path: Path, whole: Path) -> Path:
    """A copy of it, to be damaged."""
    shutil.copytree(whole, tmp_path / "run", symlinks=True)
    return tmp_path / "run"


@pytest.mark.parametrize("also", [(), ("catalog.sqlite",), ("catalog.sqlite", "policies")])
def test_a_run_without_its_checkpoints_is_refused_and_left_as_it_is(run: Path, also: tuple[str, ...]) -> None:
    shutil.rmtree(run / "checkpoints")
    for name in also:
        path = run / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    before = directory_hashes(run / "policies") if "policies" not in also else {}
    with pytest.raises(IncompleteCheckpoint, match=r"no checkpoint although .*not starting over.*--from-scratch"):
        resume(run)
    assert directory_hashes(run / "policies") == before


def test_from_scratch_begins_anew_and_keeps_what_was_there(run: Path, whole: Path) -> None:
    shutil.rmtree(run / "checkpoints")
    status = resume(run, steps=STEPS, from_scratch=True)
    assert status.stage == "done"
    assert directory_hashes(run / "earlier" / "1" / "policies") == directory_hashes(whole / "policies")
    assert directory_hashes(run / "policies") == directory_hashes(whole / "policies")  # the same seed
    assert resume(run).steps >= MORE_STEPS


def test_a_newest_checkpoint_that_is_gone_is_named(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    *_, before, newest = CheckpointStore(run / "checkpoints", keep=3).list()
    shutil.rmtree(run / "checkpoints" / f"{newest:08d}")
    with pytest.raises(IncompleteCheckpoint, match=f"checkpoint {newest} is not in .* any more; strict"):
        resume(run, strict_resume=True)
    with caplog.at_level(logging.WARNING):
        assert resume(run).stage == "done"
    assert f"checkpoint {newest} is not in {run / 'checkpoints'} any more; using checkpoint {before}" in caplog.text
