"""`ludus league` on a finished run, beside a live one, and on what is not a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from ludus.cli.league import league
from ludus.config.judge import LeagueConfig
from ludus.errors import ConfigError
from ludus.league import Pool
from ludus.records import EpisodeId, Match, PolicyName, PolicyRef
from ludus.storage.catalog import Catalog
from ludus.storage.run_directory import RunDirectory


@pytest.fixture
def run(tmp_path: Path) -> Path:
    directory = RunDirectory(tmp_path / "demo")
    directory.create("name: demo\ngames: [pgx:tic_tac_toe]\n")
    main, other = PolicyRef(name=PolicyName("main")), PolicyRef(name=PolicyName("random"))
    pool = Pool(LeagueConfig(), main)
    for number in range(20):
        pool.record(Match(id=EpisodeId(str(number)), game="g", seats=(main, other), returns=(1.0, -1.0)))
    with Catalog(directory.catalog) as catalog:
        pool.write(catalog)
    return directory.path


def test_prints_both_tables_and_draws_both_pictures(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    league(run)
    printed = capsys.readouterr().out
    assert "Ladder" in printed
    assert "Payoffs" in printed
    assert "100.0%" in printed
    for name in ("ladder.png", "payoffs.png"):
        assert (run / "league" / name).read_bytes().startswith(b"\x89PNG")
        assert name in printed


def test_json_is_one_object_and_pictures_go_where_asked(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Catalog(run / "catalog.sqlite") as live, live.transaction():
        league(run, png=tmp_path / "elsewhere" / "deep", as_json=True)
    printed = json.loads(capsys.readouterr().out)
    assert [row["policy"] for row in printed["ladder"]] == ["main", "random"]
    assert printed["payoffs"]["games"] == [[0, 20], [20, 0]]
    assert all(Path(path).is_file() for path in printed["pictures"])
    assert not (run / "league").exists()


def test_directory_that_is_no_run_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a run directory"):
        league(tmp_path)


def test_help_has_an_example() -> None:
    app = typer.Typer()
    app.command()(league)
    assert "ludus league runs/" in (league.__doc__ or "")
    assert typer.main.get_command(app).name == "league"
