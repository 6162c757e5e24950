"""Parts of a run are gone or damaged: it heals with a word or refuses with a remedy, and never starts over silently."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ludus import SingleRun, parse_config
from ludus.cli.arguments import open_run
from ludus.cli.inspect import catalog_facts, find_episode, newest_episodes
from ludus.errors import ConfigError, CorruptRecord, IncompleteCheckpoint, StorageError
from ludus.orchestrator import RunState, RunStore
from ludus.policies import PolicyStore
from ludus.records import PolicyName, PolicyRef, PolicyVersion
from ludus.runs.driver import Status
from ludus.storage.atomic import directory_hashes
from ludus.storage.catalog import Catalog
from ludus.storage.checkpoints import CheckpointStore
from ludus.storage.jsonl import read_jsonl
from ludus.storage.run_directory import RunDirectory
from ludus.storage.tensors import tensors_hash

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
PATIENCE_S = 300.0
"""A bound for waits that end by a sign."""


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
    assert "main@0 cannot be used" in caplog.text
    assert "it leaves the league's pool" in caplog.text
    assert not events(run, "episode_failed")


def test_a_run_trains_on_while_another_program_holds_its_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ludus.storage.database._BUSY_S", 0.05)
    loop = make(tmp_path / "run", 10**6)
    loop.start()
    end = time.monotonic() + PATIENCE_S
    while not loop.status().update:
        assert not loop.wait(0.02).is_over
        assert time.monotonic() < end
    foreign = sqlite3.connect(tmp_path / "run" / "catalog.sqlite", isolation_level=None, timeout=60.0)
    foreign.execute("BEGIN IMMEDIATE")
    held = loop.status().update
    while loop.status().update < held + 2:
        assert not loop.wait(0.02).is_over
        assert time.monotonic() < end
    foreign.execute("ROLLBACK")
    foreign.close()
    loop.stop()
    status = loop.wait(PATIENCE_S)
    assert status.is_over
    assert "is locked by another program; the run goes on" in caplog.text
    catalog = sqlite3.connect(tmp_path / "run" / "catalog.sqlite")
    known = catalog.execute("SELECT max(version) FROM policies").fetchone()[0]
    (progress,) = catalog.execute("SELECT value FROM cursors WHERE key = 'progress'").fetchone()
    catalog.close()
    assert known == status.version == json.loads(progress)["version"]


def set_writable(folders: list[Path], is_writable: bool) -> None:
    """For root, whom permissions do not stop, the folders become immutable."""
    if os.geteuid():
        for folder in folders:
            folder.chmod(0o755 if is_writable else 0o555)
    elif subprocess.run(["chattr", "-i" if is_writable else "+i", *folders], capture_output=True).returncode:
        pytest.skip("folders cannot be made immutable here")


def test_a_run_whose_directory_becomes_read_only_waits_and_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run, end = tmp_path / "run", time.monotonic() + PATIENCE_S
    loop = make(run, 10**6)

    def goes_on() -> None:
        assert not loop.wait(0.02).is_over
        assert time.monotonic() < end

    loop.start()
    while not loop.status().update:
        goes_on()
    folders = [path for path in [run, *run.iterdir()] if path.is_dir()]
    set_writable(folders, is_writable=False)
    try:
        while "cannot be written" not in caplog.text:
            goes_on()
    finally:
        set_writable(folders, is_writable=True)
    held = loop.status().update
    while loop.status().update < held + 2:
        goes_on()
    loop.stop()
    status = loop.wait(PATIENCE_S)
    assert (status.is_over, status.error) == (True, "")
    assert f"{run} can be written again" in caplog.text
    newest = PolicyRef(name=PolicyName("main"), version=PolicyVersion(status.version))
    assert PolicyStore(run / "policies").problem(newest) == ""


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


def damage_after(monkeypatch: pytest.MonkeyPatch, method: str, damaged: Path, *, times: int = 1) -> None:
    """A disk that spoils a version as soon as the run has written, or checked, its state."""
    owner, name = method.rsplit(".", 1)
    kind = {"RunStore": RunStore, "RunState": RunState}[owner]
    original, left = getattr(kind, name), [times]

    def spoiled(self: Any, *arguments: Any, **options: Any) -> Any:
        answer = original(self, *arguments, **options)
        if left[0] and damaged.is_dir():
            left[0] -= 1
            truncate(damaged, damaged)
        return answer

    monkeypatch.setattr(kind, name, spoiled)


def test_a_version_that_is_damaged_before_explorers_load_it_is_published_again(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = tmp_path / "run"
    damage_after(monkeypatch, "RunStore.publish", run / "policies" / "main" / "00000002")
    assert make(run, STEPS).run_to_end().stage == "done"
    assert "main@2 cannot be used" in caplog.text
    assert "published again from checkpoint" in caplog.text
    (told,) = events(run, "policy_damaged")
    assert told["policy"] == "main@2"
    assert not events(run, "episode_failed")
    assert (run / "quarantine" / "main-00000002").is_dir()
    assert directory_hashes(run / "policies") == directory_hashes(whole / "policies"), "played as if nothing had been"


def test_a_disk_that_damages_a_version_again_and_again_stops_the_run_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    damage_after(monkeypatch, "RunStore.publish", run / "policies" / "main" / "00000002", times=99)
    with pytest.raises(StorageError, match=r"main@2 cannot be used .*The same command resumes the run"):
        make(run, STEPS).run_to_end()
    monkeypatch.undo()
    assert make(run, STEPS).run_to_end().stage == "done"


def test_an_opponent_that_is_damaged_while_the_run_is_alive_leaves_the_pool(
    run: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    damage_after(monkeypatch, "RunState.load_state", run / "policies" / "main" / "00000000")
    assert resume(run).steps >= MORE_STEPS
    assert "main@0 cannot be used" in caplog.text
    assert "it leaves the league's pool" in caplog.text
    (told,) = events(run, "policy_damaged")
    assert told["policy"] == "main@0"
    assert (run / "quarantine" / "main-00000000").is_dir()


def test_a_damaged_version_that_the_checkpoint_is_ahead_of_is_followed_by_the_next(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Versions come every fourth update, checkpoints with every one; the run goes back to one between two versions."""
    text = TEXT.replace("STEPS", "1600").replace("snapshot_every: 100", "snapshot_every: 100000")
    config = parse_config(text + "synchronise: {interval: 4}\ncheckpoint: {every: 1, keep: 99}\n", "parts.yaml")
    run = tmp_path / "run"
    assert SingleRun(config, run).run_to_end().stage == "done"
    checkpoints, store = CheckpointStore(run / "checkpoints", keep=99), PolicyStore(run / "policies")
    saved = checkpoints.load(6)
    assert saved.state["progress"] | {"version": 1, "unpublished": 2} == saved.state["progress"]
    for update in checkpoints.list():
        if update > saved.update:
            shutil.rmtree(run / "checkpoints" / f"{update:08d}")
    for later in store.versions("main")[2:]:
        shutil.rmtree(store.path(later))
    truncate(run / "policies" / "main" / "00000001", run)
    again = SingleRun(config, run)
    again.until = 1  # it is further than that: it begins, and ends
    again.run_to_end()
    assert "main@1 cannot be used" in caplog.text
    assert "the next version follows from the checkpoint" in caplog.text
    assert (run / "quarantine" / "main-00000001").is_dir()
    newest = store.versions("main")[-1]
    assert newest.version == 2
    assert tensors_hash(store.load(newest).weights) == tensors_hash(saved.tensors("weights"))


@pytest.mark.parametrize(
    ("statement", "table"),
    [
        ("UPDATE segments SET rows = NULL", "segments"),
        ("UPDATE segments SET rows = -3", "segments"),
        ("UPDATE logs SET next_seq = 'many'", "logs"),
        ("UPDATE policies SET version = x'00' WHERE version = 1", "policies"),
        ("UPDATE ratings SET mu = 'strong'", "ratings"),
        ("UPDATE cursors SET value = '{\"update\": '", "cursors"),
    ],
)
def test_bad_values_in_the_catalog_are_named_with_a_remedy_that_works(run: Path, statement: str, table: str) -> None:
    with contextlib.closing(sqlite3.connect(run / "catalog.sqlite")) as catalog:
        assert catalog.execute(statement).rowcount
        catalog.commit()
    said = rf"catalog.sqlite: table {table} has a row that cannot be: .*Move the file away; the next start"
    with pytest.raises(CorruptRecord, match=said):
        catalog_facts(RunDirectory(run))
    with pytest.raises(CorruptRecord, match=said):
        resume(run)
    for path in run.glob("catalog.sqlite*"):
        path.rename(run.parent / path.name)
    if table == "segments":  # once is enough
        assert resume(run, steps=STEPS).stage == "done"
        assert catalog_facts(RunDirectory(run))["progress"]["finished"]


@pytest.mark.parametrize("is_there", [True, False])
def test_an_empty_or_missing_catalog_is_named_and_the_next_start_builds_it_anew(run: Path, is_there: bool) -> None:
    for path in run.glob("catalog.sqlite*"):
        path.unlink()
    if is_there:
        (run / "catalog.sqlite").touch()
    said = rf"catalog.sqlite {'is empty' if is_there else 'does not exist'}.*the next start of the run"
    with pytest.raises(StorageError, match=said):
        catalog_facts(RunDirectory(run))
    assert resume(run, steps=STEPS).stage == "done"
    assert catalog_facts(RunDirectory(run))["versions"] == 3


@pytest.mark.parametrize("names", [("format.json",), ("config.yaml",), ("format.json", "config.yaml")])
def test_a_run_that_lost_its_format_or_config_says_so_and_goes_on(
    run: Path, names: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    for name in names:
        (run / name).unlink()
    with pytest.raises(ConfigError, match=rf"{' and '.join(names)} is gone, and `ludus run` with its config writes it"):
        open_run(run)
    assert resume(run).steps >= MORE_STEPS
    for name in names:
        assert f"{run / name} was gone; it is written again" in caplog.text
    assert [event["resumed"] for event in events(run, "started")] == [False, True]
    open_run(run)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("episodes",), marks=pytest.mark.slow),
        pytest.param(("policies",), marks=pytest.mark.slow),
        ("episodes", "policies"),
        pytest.param(("episodes", "policies", "catalog.sqlite"), marks=pytest.mark.slow),
    ],
)
def test_a_run_that_lost_its_episodes_or_policies_says_so_and_uses_no_version_number_twice(
    run: Path, names: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    for name in names:
        shutil.rmtree(run / name) if (run / name).is_dir() else (run / name).unlink()
    assert resume(run).steps >= MORE_STEPS
    published = {(event["policy"], event["weights_hash"]) for event in events(run, "published")}
    assert len(published) == len({policy for policy, _ in published})
    assert [event["resumed"] for event in events(run, "started")] == [False, True]
    if "policies" in names:
        assert "main@0 cannot be used" in caplog.text
        assert "main@1 cannot be used" in caplog.text
        assert "published again from checkpoint" in caplog.text
    if "catalog.sqlite" not in names:  # it alone knows which segments there were
        assert bool(re.search(r"episodes: \d+ segments are gone", caplog.text)) == ("episodes" in names)
