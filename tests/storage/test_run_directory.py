"""The layout of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ludus.errors import StorageError
from ludus.storage.run_directory import RunDirectory


def test_created_run_opens_and_keeps_its_config(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "runs" / "x")
    assert not run.is_run()
    run.create("name: x\n")
    assert run.is_run()
    run.open()
    assert run.read_config() == "name: x\n"
    assert all(folder.is_dir() for folder in (run.checkpoints, run.episodes, run.experiences, run.policies, run.logs))
    assert run.policy("main", 12) == run.path / "policies" / "main" / "00000012"


def test_creating_again_updates_the_config_and_loses_nothing(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "x")
    run.create("steps: 1\n")
    (run.checkpoints / "00000001").mkdir()
    (run.path / "tensorboard").mkdir()
    run.create("steps: 2\n")
    assert run.read_config() == "steps: 2\n"
    assert (run.checkpoints / "00000001").is_dir()


def test_directory_of_somebody_else_is_refused_untouched(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    for action in (RunDirectory(tmp_path).prepare, lambda: RunDirectory(tmp_path).create("")):
        with pytest.raises(StorageError, match=r"not empty and not a run \(it has thesis.tex\)"):
            action()
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(StorageError, match="is not a directory"):
        RunDirectory(tmp_path / "thesis.tex").prepare()
    with pytest.raises(StorageError, match="not a run directory"):
        RunDirectory(tmp_path).open()


def test_creation_that_was_cut_short_is_completed(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    run.create("a: 1\n")
    run.config.unlink()
    run.logs.rmdir()
    (tmp_path / ".tmp-1-0123456789").write_text("half")
    assert not run.is_run()
    run.create("a: 1\n")
    assert run.is_run()
    assert run.logs.is_dir()


def test_a_control_socket_that_was_faster_than_the_creation_is_no_stranger(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "control.sock").touch()
    (run / "lock").touch()
    RunDirectory(run).create("name: x\n")
    assert RunDirectory(run).is_run()


def test_run_of_a_newer_ludus_is_refused(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    run.create("a: 1\n")
    run.format.write_text(json.dumps({"format": 2}))
    with pytest.raises(StorageError, match=r"format 2.*upgrade"):
        run.open()
    with pytest.raises(StorageError, match="upgrade"):
        run.create("a: 2\n")
    assert run.read_config() == "a: 1\n"


def test_each_start_has_its_own_logs_and_latest_points_at_the_newest(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    run.create("")
    names = [run.new_attempt().name for _ in range(11)]
    assert names == [f"attempt_{number}" for number in range(1, 12)]
    assert (run.logs / "latest").resolve().name == "attempt_11"
    assert len(list(run.logs.iterdir())) == 12


def test_disk_bytes_counts_files_and_survives_dangling_links(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    run.create("")
    before = run.disk_bytes()
    (run.episodes / "x").write_bytes(b"x" * 100_000)
    (run.logs / "dangling").symlink_to("nowhere")
    assert before + 100_000 <= run.disk_bytes() <= before + 110_000
