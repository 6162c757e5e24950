"""Run directories of earlier formats: commands read them, and all of them resume to the same bits."""

import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from ludus.cli.app import main
from ludus.config import load_config
from ludus.storage.jsonl import read_jsonl

FIXTURES = Path(__file__).parents[1] / "fixtures" / "runs"
NAMES = ("after_reshape", "before_reshape")


def ludus(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["ludus", *map(str, arguments)])
    with pytest.raises(SystemExit) as left:
        main()
    return int(left.value.code or 0)


def unpack(name: str, folder: Path) -> Path:
    with tarfile.open(FIXTURES / f"{name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / name


def published(run: Path) -> list[tuple[str, int, str]]:
    events = [event for event in read_jsonl(run / "events.jsonl") if event["event"] == "published"]
    return [(event["policy"], event["step"], event["weights_hash"]) for event in events]


def test_every_archive_is_tried_and_small() -> None:
    archives = {path.name.removesuffix(".tar.gz"): path.stat().st_size for path in FIXTURES.glob("*.tar.gz")}
    assert sorted(archives) == sorted(NAMES)
    assert max(archives.values()) < 200_000


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("command", "words"),
    [("inspect", ("7 updates, 252 steps", "finished", "verified")), ("league", ("main@7", "random"))],
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


def test_runs_of_every_format_resume_to_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[Any] = []
    for name in NAMES:
        run = unpack(name, tmp_path)
        before = published(run)
        assert ludus(monkeypatch, "run", FIXTURES / "kuhn.yaml", "--run-dir", run, "train.steps=360", "-q") == 0
        ends.append(published(run))
        assert ends[-1][: len(before)] == before
        assert ends[-1][-1][1] >= 360
    assert ends[0] == ends[1]


@pytest.mark.parametrize("name", NAMES)
def test_the_stored_config_of_an_older_run_resumes_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = unpack(name, tmp_path)
    stored = load_config(run / "config.yaml")
    assert {term.source for term in stored.train.algorithm.objective or ()} == {"on_policy"}
    before = published(run)
    assert ludus(monkeypatch, "run", run / "config.yaml", "--run-dir", run, "-q") == 0
    assert published(run) == before, "a finished run has nothing left to do"
