"""Run directories of earlier formats: they are read by every command and resumed to the same bits."""

import json
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from ludus.cli.app import main
from ludus.config import load_config
from ludus.storage.jsonl import read_jsonl

FIXTURES = Path(__file__).parents[1] / "fixtures" / "runs"
LONGER: dict[str, Any] = json.loads((FIXTURES / "longer.json").read_text())
NAMES = sorted(LONGER)


def ludus(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["ludus", *map(str, arguments)])
    with pytest.raises(SystemExit) as left:
        main()
    return int(left.value.code or 0)


def unpack(name: str, folder: Path) -> Path:
    with tarfile.open(FIXTURES / f"{name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / name


def test_every_archive_is_tried_and_small() -> None:
    archives = {path.name.removesuffix(".tar.gz"): path.stat().st_size for path in FIXTURES.glob("*.tar.gz")}
    assert sorted(archives) == NAMES
    assert max(archives.values()) < 200_000


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("command", "words"),
    [("inspect", ("update 8, 252 steps", "finished", "verified")), ("league", ("main@7", "random"))],
)
def test_an_older_run_is_shown(
    name: str,
    command: str,
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ludus(monkeypatch, command, unpack(name, tmp_path)) == 0
    shown = capsys.readouterr().out
    assert [word for word in words if word not in shown] == []


@pytest.mark.parametrize("name", NAMES)
def test_an_older_run_is_resumed_to_the_bits_that_its_own_code_reaches(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = unpack(name, tmp_path)
    assert ludus(monkeypatch, "run", FIXTURES / "kuhn.yaml", "--run-dir", run, "train.steps=360") == 0
    published = [event for event in read_jsonl(run / "events.jsonl") if event["event"] == "published"]
    assert {key: published[-1][key] for key in ("step", "weights_hash")} == LONGER[name]


@pytest.mark.parametrize("name", NAMES)
def test_the_stored_config_of_an_older_run_says_what_its_file_said(name: str, tmp_path: Path) -> None:
    stored = load_config(unpack(name, tmp_path) / "config.yaml")
    assert stored.train.steps == 240
    assert stored.train.algorithm.objective is not None
    assert {term.source for term in stored.train.algorithm.objective} == {"on_policy"}
