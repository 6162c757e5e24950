"""`ludus logs`."""

import tracemalloc
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ludus.cli.app import app
from ludus.cli.logs import new_lines
from ludus.errors import ConfigError
from ludus.storage.run_directory import RunDirectory


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that has been started more than once."""
    directory = RunDirectory(tmp_path / "run")
    directory.create("name: run\ngames: [open_spiel:tic_tac_toe]\n")
    for attempt, worker, text in ((2, "explorer-0", "old\n"), (10, "explorer-0", "a\nb\nc\n"), (10, "trainer", "t\n")):
        folder = directory.logs / f"attempt_{attempt}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{worker}.log").write_text(text)
    return directory.path


def said(*arguments: object) -> list[str]:
    result = CliRunner().invoke(app, ["logs", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout.splitlines()


def test_the_last_lines_of_every_worker_of_the_newest_start_are_shown(run: Path) -> None:
    assert said(run, "--lines", 2) == ["explorer-0: b", "explorer-0: c", "trainer: t"]
    assert said(run, "--attempt", 2) == ["explorer-0: old"]


def test_one_worker_has_its_lines_without_its_name(run: Path) -> None:
    assert said(run, "--worker", "explorer-0", "--lines", 0) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--worker", "explorer-7"], "no worker explorer-7 in RUN/logs/attempt_10; there are explorer-0, trainer"),
        (["--attempt", "3"], "RUN has no attempt 3; there are 2, 10"),
    ],
)
def test_what_is_not_there_is_answered_with_what_there_is(run: Path, arguments: list[str], problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        CliRunner().invoke(app, ["logs", str(run), *arguments], catch_exceptions=False)
    assert str(raised.value) == problem.replace("RUN", str(run))


def test_other_things_among_the_logs_are_passed_over(run: Path) -> None:
    for name in ("attempt_x", "attempt_-3", "attempt_²", "other"):
        (run / "logs" / name).mkdir()
    (run / "logs" / "attempt_99").write_text("a file")
    assert said(run, "--lines", 1) == ["explorer-0: c", "trainer: t"]


def test_a_long_log_is_read_line_by_line(run: Path) -> None:
    folder, count = run / "logs" / "attempt_10", 200_000
    (folder / "trainer.log").write_text("".join(f"line {number} {'x' * 90}\n" for number in range(count)))
    tracemalloc.start()
    try:
        shown = sum(1 for _ in new_lines(folder, ["trainer"], {}, last=0))
        assert shown == count
        assert tracemalloc.get_traced_memory()[1] < 2_000_000, "of 20 MB"
    finally:
        tracemalloc.stop()


def test_followed_logs_give_every_line_once_when_it_is_whole(run: Path) -> None:
    folder, read = run / "logs" / "attempt_10", dict[Path, int]()
    path = folder / "trainer.log"
    assert list(new_lines(folder, ["trainer"], read, last=5)) == ["t"]
    with path.open("a") as file:
        file.write("u\nhal")
        file.flush()
        assert list(new_lines(folder, ["trainer"], read, last=0)) == ["u"]
        file.write("f\n")
    (folder / "explorer-1.log").write_text("new\n")
    assert list(new_lines(folder, ["trainer", "explorer-1"], read, last=0)) == ["explorer-1: new", "trainer: half"]
    assert list(new_lines(folder, ["trainer"], read, last=0)) == []
