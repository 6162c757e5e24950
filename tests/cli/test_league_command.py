"""`ludus league` on a finished run, beside a live one, and on what is not a run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import typer

from ludus.cli.league import league
from ludus.config import LeagueConfig
from ludus.errors import ConfigError
from ludus.league import EmpiricalGame, Pool
from ludus.league.matchmaking.population import UNIFORM, Recruit, Roster
from ludus.records import EpisodeId, Match, PolicyName, PolicyRef, PolicyVersion
from ludus.runs.population.population_state import PopulationState
from ludus.storage.catalog import Catalog
from ludus.storage.checkpoints import CheckpointStore
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
    for name in ("ladder", "payoffs"):
        assert (run / "league" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (run / "league" / f"{name}.svg").read_bytes()[:500]
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


def test_json_draws_nothing_unless_told_where(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    league(run, as_json=True)
    assert json.loads(capsys.readouterr().out)["pictures"] == []
    assert not (run / "league").exists()


def test_directory_that_is_no_run_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a run directory"):
        league(tmp_path)


def test_help_has_an_example() -> None:
    app = typer.Typer()
    app.command()(league)
    assert "ludus league runs/" in (league.__doc__ or "")
    assert typer.main.get_command(app).name == "league"


@pytest.fixture
def population(tmp_path: Path) -> Path:
    """A population that learns, as its run saved it: one member who beats the uniform player."""
    directory = RunDirectory(tmp_path / "learned")
    directory.create(
        "name: learned\ngames: [open_spiel:kuhn_poker]\ntopology: split\n"
        "population: {oracle: learned, stop: {generations: 1}}\n"
    )
    member = PolicyRef(name=PolicyName("main"), version=PolicyVersion(1))
    table = EmpiricalGame(2, symmetric=True, constant_sum=0.0)
    table.add_policy("random")
    table.add_policy("main@1")
    pool = Pool(LeagueConfig(), PolicyRef(name=PolicyName("main")))
    pool.add_snapshot(member, 100)
    for number in range(4):
        table.record(("main@1", "random"), (1.0, -1.0))
        pool.record(Match(id=EpisodeId(str(number)), game="g", seats=(member, UNIFORM), returns=(1.0, -1.0)))
    roster = Roster(("main",))
    roster.add(Recruit(ref=member, agent="main", generation=1, learner="main-1"))
    state = PopulationState(roster=roster, table=table, joint=np.diag([0.0, 1.0]), generation=1)
    shares = [[["random", 1.0]]], [[["main@1", 1.0]]]
    state.history = [
        {"generation": generation, "shares": shares[generation], "metrics": metrics}
        for generation, metrics in enumerate(({}, {"psro/nash_conv_bound": 2.0}))
    ]
    store = CheckpointStore(directory.checkpoints, keep=2)
    store.commit(store.stage(1), 1, {"population": state.to_json()})
    with Catalog(directory.catalog) as catalog:
        pool.write(catalog)
    return directory.path


def test_a_population_that_learns_is_shown_with_its_ladder_its_bound_and_its_lineage(
    population: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    league(population)
    printed = capsys.readouterr().out
    for words in ("Ladder", "Elo", "Payoffs, played", "100.0%", "●@1 g1", "NashConv (lower bound): 2"):
        assert words in printed
    drawn = {path.name for path in (population / "league").iterdir()}
    names = ("ladder", "payoffs", "meta_strategy", "nash_conv_bound", "lineage")
    assert drawn == {f"{name}.{form}" for name in names for form in ("png", "svg")}


def test_json_of_a_population_that_learns_has_all_of_it(population: Path, capsys: pytest.CaptureFixture[str]) -> None:
    league(population, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert [row["policy"] for row in found["ladder"]] == ["main@1", "random"]
    assert found["ladder"][0]["mu"] > 25.0 > found["ladder"][1]["mu"]
    assert found["payoffs"]["games"] == [[0, 4], [4, 0]]
    assert found["relative_performance"] == 1.0
    assert found["pictures"] == []
    assert not (population / "league").exists()


def test_a_population_is_not_told_which_games_to_play(population: Path) -> None:
    with pytest.raises(ConfigError, match="plays the games that its table needs itself"):
        league(population, play=10)
