"""Parts of a run are gone or damaged: it heals with a word or refuses with a remedy, and never starts over silently."""

from __future__ import annotations

import json
import logging
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ludus import SingleRun, parse_config
from ludus.cli.inspect import find_episode, newest_episodes
from ludus.errors import IncompleteCheckpoint
from ludus.runs.driver import Status
from ludus.storage.atomic import directory_hashes
from ludus.storage.catalog import Catalog
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


def newest_policy(run: Path) -> Path:
    return sorted((run / "policies" / "main").iterdir())[-1]


def truncate(policy: Path, whole: Path) -> None:
    weights = policy / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-5])


def lie(policy: Path, whole: Path) -> None:
    weights = policy / "weights.safetensors"
    weights.write_bytes((1 << 60).to_bytes(8, "little") + weights.read_bytes()[8:])


def swap(policy: Path, whole: Path) -> None:
    shutil.rmtree(policy)
    shutil.copytree(whole / "policies" / "main" / "00000000", policy)


def remove_card(policy: Path, whole: Path) -> None:
    (policy / "policy.json").unlink()


def remove(policy: Path, whole: Path) -> None:
    shutil.rmtree(policy)


@pytest.mark.parametrize("damage", [truncate, lie, swap, remove_card, remove])
def test_a_damaged_newest_policy_is_published_again_from_the_checkpoint(
    run: Path, whole: Path, damage: Callable[[Path, Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    newest = newest_policy(run)
    was = directory_hashes(newest)
    damage(newest, whole)
    with caplog.at_level(logging.WARNING):
        assert resume(run, steps=STEPS).stage == "done"
    assert directory_hashes(newest) == was
    if damage is not remove:
        assert f"main@{int(newest.name)} was damaged; it is published again" in caplog.text
        assert (run / "quarantine" / f"main-{newest.name}").is_dir()


def test_a_run_whose_newest_policy_and_an_opponent_are_damaged_trains_on(
    run: Path, whole: Path, caplog: pytest.LogCaptureFixture
) -> None:
    truncate(newest_policy(run), whole)
    truncate(run / "policies" / "main" / "00000000", whole)
    with caplog.at_level(logging.WARNING):
        assert resume(run).steps >= MORE_STEPS
    assert "main@0 cannot be played against any more and leaves the pool" in caplog.text
    assert not events(run, "episode_failed")


def test_a_run_trains_on_while_another_program_holds_its_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ludus.storage.database._BUSY_S", 0.05)
    loop = make(tmp_path / "run", 10**6)
    loop.start()
    while not loop.status().update:
        assert not loop.wait(0.02).is_over
    foreign = sqlite3.connect(tmp_path / "run" / "catalog.sqlite", isolation_level=None, timeout=60.0)
    foreign.execute("BEGIN IMMEDIATE")
    held = loop.status().update
    while loop.status().update < held + 2:
        assert not loop.wait(0.02).is_over
    foreign.execute("ROLLBACK")
    foreign.close()
    loop.stop()
    status = loop.wait()
    assert "is locked by another program; the run goes on" in caplog.text
    catalog = sqlite3.connect(tmp_path / "run" / "catalog.sqlite")
    known = catalog.execute("SELECT max(version) FROM policies").fetchone()[0]
    (progress,) = catalog.execute("SELECT value FROM cursors WHERE key = 'progress'").fetchone()
    catalog.close()
    assert known == status.version == json.loads(progress)["version"]


def test_a_run_that_was_copied_with_its_links_followed_goes_on(run: Path, tmp_path: Path) -> None:
    subprocess.run(["cp", "-rL", run, tmp_path / "copy"], check=True)
    assert not (tmp_path / "copy" / "logs" / "latest").is_symlink()
    assert resume(tmp_path / "copy").steps >= MORE_STEPS
    assert (tmp_path / "copy" / "logs" / "latest").is_symlink()
    assert list((tmp_path / "copy" / "quarantine").iterdir()) == []


def test_a_catalog_that_is_rebuilt_knows_all_versions_and_the_league(run: Path) -> None:
    def known() -> tuple[list[Any], list[Any]]:
        with Catalog.open_readonly(run / "catalog.sqlite") as catalog:
            ratings = catalog.query("SELECT policy, mu, games FROM ratings ORDER BY policy")
            return catalog.policies(), ratings

    before = known()
    for path in run.glob("catalog.sqlite*"):
        path.unlink()
    assert resume(run, steps=STEPS).stage == "done"
    assert known() == before


def test_a_damaged_segment_does_not_hide_the_episodes_of_others(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    last = find_episode(run, "last").id
    first = sorted((run / "episodes").glob("*.arrow"))[0]
    first.write_bytes(first.read_bytes()[:-20])
    assert find_episode(run, "last").id == last
    assert [row["id"] for row in newest_episodes(run, 1)] == [last]
    assert f"passed over: {first}" in caplog.text
