"""Which stages of a run have begun and which are done, and where they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ludus.errors import CorruptRecord, StorageError
from ludus.storage.run_directory import BegunStage, RunDirectory, StagedDirectory, find_run

BEGUN = (BegunStage(folder="1_sft", is_done=True), BegunStage(folder="2_mix"))


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    staged = StagedDirectory(tmp_path / "x")
    assert not staged.is_staged()
    assert staged.read() == ()
    staged.prepare()
    staged.write(BEGUN)
    assert staged.is_staged()
    assert staged.read() == BEGUN


def test_the_newest_stage_is_the_last_that_has_a_run(tmp_path: Path) -> None:
    staged = StagedDirectory(tmp_path)
    staged.write(BEGUN)
    assert staged.newest() is None
    assert find_run(tmp_path).path == tmp_path
    staged.stage("1_sft").create("name: x\n")
    assert find_run(tmp_path).path == tmp_path / "1_sft"
    staged.stage("2_mix").create("name: x\n")
    assert find_run(tmp_path).path == tmp_path / "2_mix"
    assert find_run(tmp_path / "1_sft").path == tmp_path / "1_sft"
    assert find_run(tmp_path / "nothing").path == tmp_path / "nothing"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "null",
        '{"format": 1}',
        '{"format": 1, "stages": 3}',
        '{"format": 1, "stages": [3]}',
        '{"format": 1, "stages": [{"folder": "../elsewhere", "done": true}]}',
        '{"format": 1, "stages": [{"folder": "/etc", "done": true}]}',
        '{"format": 1, "stages": [{"folder": "..", "done": true}]}',
        '{"format": 1, "stages": [{"folder": "1_sft", "done": "yes"}]}',
    ],
)
def test_a_record_that_says_something_else_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "stages.json").write_text(content)
    with pytest.raises(CorruptRecord, match=r"stages\.json"):
        StagedDirectory(tmp_path).read()


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "stages.json").write_text(json.dumps({"format": 2, "stages": []}))
    with pytest.raises(StorageError, match="has format 2, this ludus reads up to 1"):
        StagedDirectory(tmp_path).read()


def test_a_directory_with_something_else_in_it_is_never_written_into(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("")
    with pytest.raises(StorageError, match=r"it has thesis\.txt"):
        StagedDirectory(tmp_path).prepare()
    RunDirectory(tmp_path / "run").create("name: x\n")
    with pytest.raises(StorageError, match="is a run without stages"):
        StagedDirectory(tmp_path / "run").prepare()
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="not a directory"):
        StagedDirectory(tmp_path / "file").prepare()


def test_a_creation_that_was_cut_short_is_completed(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("")
    (tmp_path / "config.yaml").write_text("name: x\n")
    StagedDirectory(tmp_path).prepare()
