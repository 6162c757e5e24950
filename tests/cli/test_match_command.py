"""`ludus match`: balanced seats, honest figures, games to look at, and nothing of the run changes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from ludus.cli.app import app
from ludus.cli.arguments import open_run
from ludus.cli.league_games import play_most_telling
from ludus.cli.match import PlainProgress
from ludus.cli.match_games import Table
from ludus.config import LeagueConfig, MlpConfig
from ludus.errors import ConfigError
from ludus.league import Cell, Pool
from ludus.league.matchmaking.recorded import read_recorded
from ludus.league.payoffs.cells import Z95
from ludus.policies import PolicyShape, PolicyStore
from ludus.records import EpisodeId, Match, PolicyName, PolicyRef, PolicyVersion
from ludus.reports.ladder import standing_of_run
from ludus.reports.match_report import interval
from ludus.storage.catalog import Catalog
from ludus.storage.run_directory import RunDirectory

GAME = "open_spiel:kuhn_poker"


def version(number: int) -> PolicyRef:
    return PolicyRef(name=PolicyName("main"), version=PolicyVersion(number))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three versions of a network that are random, and a league in which the newest beat `random`."""
    from ludus.games import make_game

    directory = RunDirectory(tmp_path_factory.mktemp("runs") / "kuhn")
    policy = "policy: {network: {kind: mlp, hidden: [4]}}"
    directory.create(f"name: kuhn\ngames: [{GAME}]\n{policy}\nevaluate: {{greedy: true}}\n")
    spec = make_game(GAME).spec
    shape = PolicyShape(
        network=MlpConfig(hidden=(4,)),
        observation_shape=spec.observation_shape,
        actions=spec.actions,
        layout="channels_last",
        games=(GAME,),
    )
    for number in (0, 4, 9):
        weights = {name: np.asarray(tensor) for name, tensor in shape.build().init(number).items()}
        PolicyStore(directory.policies).publish(version(number), weights, shape, step=number)
    pool = Pool(LeagueConfig(), version(9))
    pool.add_snapshot(version(4), 4)
    random = PolicyRef(name=PolicyName("random"))
    for number in range(20):
        returns = (1.0, -1.0) if number % 4 else (-1.0, 1.0)
        pool.record(Match(id=EpisodeId(str(number)), game=GAME, seats=(version(9), random), returns=returns))
    with Catalog(directory.catalog) as catalog:
        pool.write(catalog)
    return directory.path


def match(run: Path, *arguments: object) -> Any:
    done = CliRunner().invoke(app, ["match", str(run), *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done


def figures(run: Path, *arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(match(run, *arguments, "--json").stdout)
    return found


def files_of(run: Path) -> dict[str, tuple[int, bytes]]:
    """But for what SQLite itself keeps beside a catalog while somebody reads it."""
    files = [path for path in run.rglob("*") if path.is_file() and not path.name.endswith(("-shm", "-wal"))]
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def test_seats_are_shared_and_the_figures_add_up(run: Path) -> None:
    before = files_of(run)
    found = figures(run, "latest", "random", "--games", 40, "--seed", 5)
    assert (found["a"], found["b"], found["game"]) == ("main@9", "random", GAME)
    assert [seat["games"] for seat in found["by_seat"]] == [20, 20]
    for name in ("games", "wins", "draws", "losses"):
        assert found[name] == sum(seat[name] for seat in found["by_seat"])
    assert found["games"] == found["wins"] + found["draws"] + found["losses"] == 40
    assert found["score"] == (found["wins"] + found["draws"] / 2) / 40
    low, high = found["interval"]
    assert 0 <= low < found["score"] < high <= 1
    assert files_of(run) == before, "a match changes nothing of the run"


def test_the_same_seed_gives_the_same_match_and_both_sides_the_same_result(run: Path) -> None:
    first = figures(run, "main@9", 4, "--games", 30)
    assert figures(run, 9, "main@4", "--games", 30) == first
    assert figures(run, 9, 4, "--games", 30, "--seed", 1) != {**first, "seed": 1}
    mirror = figures(run, "main", "latest", "--games", 30)
    assert (mirror["a"], mirror["b"], mirror["expected_score"]) == ("main@9", "main@9", 0.5)


def test_trueskill_is_shown_beside_the_score_where_the_run_has_rated_both(run: Path) -> None:
    trueskill = pytest.importorskip("trueskill")
    with Catalog.open_readonly(run / "catalog.sqlite") as catalog:
        rows = catalog.query("SELECT mu, sigma FROM ratings WHERE policy IN ('main', 'random') ORDER BY policy")
    (mu, sigma), (their_mu, their_sigma) = rows
    settings = LeagueConfig().trueskill
    spread = (2 * settings.beta**2 + sigma**2 + their_sigma**2) ** 0.5
    expected = trueskill.TrueSkill(backend=None).cdf((mu - their_mu) / spread)
    found = figures(run, "latest", "random", "--games", 2)
    assert found["expected_by_trueskill"] == pytest.approx(expected, abs=1e-6)
    said = match(run, "latest", "random", "--games", 2).stdout
    assert f"TrueSkill, which matchmaking uses, expected {expected:.1%}" in said
    # 15 of 20 games were won; the imagined draws bring that a little nearer to the middle.
    assert 0.70 < found["expected_score"] < 0.75
    low, high = found["expected_interval"]
    assert 0.4 < low < found["expected_score"] < high < 0.95
    assert f"the run's ladder expected {found['expected_score']:.1%} (95 % interval {low:.1%} to {high:.1%})" in said
    for other in (0, 4, "first"):
        assert figures(run, "latest", other, "--games", 2)["expected_score"] is None


def test_games_are_shown_move_by_move(run: Path) -> None:
    said = match(run, "latest", "random", "--games", 4, "--show", 2).stdout
    assert said.count("returns: seat 0:") == 2
    assert "game 1  open_spiel:kuhn_poker  seat 0: main@9, seat 1: random" in said
    assert "game 2  open_spiel:kuhn_poker  seat 0: random, seat 1: main@9" in said
    assert "  1. seat 0 plays " in said
    shown = figures(run, "latest", "random", "--games", 4, "--show", 2)["shown"]
    assert all(line in said for game in shown for line in game["moves"])
    short = match(run, "latest", "random", "--games", 4, "--show", 2, "--moves").stdout
    assert len(short.splitlines()) < len(said.splitlines())


def test_likeliest_moves_repeat_games_and_that_is_said(run: Path) -> None:
    said = match(run, 4, 9, "--games", 60, "--greedy").stdout
    assert "of the games differ" in said
    assert figures(run, 4, 9, "--games", 60, "--greedy")["distinct_games"] < 60


@pytest.mark.parametrize(
    ("who", "expected"),
    [
        ("5", "did you mean main@4?"),
        ("main@77", "did you mean main@9?"),
        ("mian@9", "did you mean main@9?"),
        ("radnom", "did you mean random?"),
        ("main@x", "main@0, main@4, main@9"),
        ("mcts", "simulations per move"),
        ("../../etc@1", "is no member"),
    ],
)
def test_somebody_unknown_is_told_who_there_is(run: Path, who: str, expected: str) -> None:
    with pytest.raises(ConfigError) as refused:
        CliRunner().invoke(app, ["match", str(run), "latest", who], catch_exceptions=False)
    assert expected in str(refused.value)


def test_a_game_that_the_run_does_not_play_and_a_run_without_policies_are_bad_input(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not play pgx:chess"):
        CliRunner().invoke(app, ["match", str(run), "0", "4", "--game", "pgx:chess"], catch_exceptions=False)
    with pytest.raises(ConfigError, match="not a run directory"):
        CliRunner().invoke(app, ["match", str(tmp_path / "nothing"), "0", "4"], catch_exceptions=False)
    empty = RunDirectory(tmp_path / "empty")
    empty.create(f"name: empty\ngames: [{GAME}]\n")
    with pytest.raises(ConfigError, match="published no policy yet"):
        CliRunner().invoke(app, ["match", str(empty.path), "latest", "random"], catch_exceptions=False)
    assert figures(empty.path, "random", "first", "--games", 6)["games"] == 6


def test_the_interval_is_wilsons() -> None:
    """`scipy.stats.binomtest(...).proportion_ci(method="wilson")` says the same where there are no draws."""
    from scipy.stats import binomtest

    for wins, games in ((0, 7), (3, 10), (50, 50), (511, 1000)):
        theirs = binomtest(wins, games).proportion_ci(method="wilson")
        assert interval(Cell(games=games, wins=wins, losses=games - wins)) == pytest.approx((theirs.low, theirs.high))
    assert pytest.approx(1.96, abs=1e-3) == Z95


def test_long_matches_tell_how_far_they_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = iter([0.0, 1.0, 6.0, 6.0, 7.0])
    monkeypatch.setattr("ludus.cli.match.time.monotonic", lambda: next(now))
    tell = PlainProgress(3000)
    for done in (10, 1200, 1300, 3000):
        tell(done)
    assert capsys.readouterr().err == "1,200 of 3,000 games\n"


@pytest.fixture
def copied(run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run, tmp_path / "copied"))


def test_recorded_games_count_in_the_ladder_once_and_nothing_else_of_the_run_changes(copied: Path) -> None:
    before = files_of(copied)
    found = figures(copied, "latest", "random", "--games", 30, "--record")
    assert found["recorded"] == 30
    assert found["greedy"], "as in the run's own evaluations"
    again = match(copied, "latest", "random", "--games", 40, "--record").stdout
    assert "recorded 10 games in" in again
    assert "30 were there already (another --seed plays others)" in again
    assert "of their 40 so far" in match(copied, "main", "random", "--games", 2).stdout
    after = files_of(copied)
    assert {path: content for path, content in after.items() if path in before} == before
    assert [path for path in after if path not in before] == [str(copied / "recorded.sqlite")]
    with Catalog.open_readonly(copied / "catalog.sqlite") as catalog:
        rows = {row.policy: row for row in standing_of_run(catalog).rows}
    assert (rows["main@9"].games, rows["main@9"].recorded, rows["random"].games) == (40, 40, 60)
    wins, losses = rows["main@9"].wins, rows["main@9"].losses
    assert wins + rows["main@9"].draws + losses == 40


def test_who_was_never_in_the_league_joins_the_ladder_with_recorded_games(copied: Path) -> None:
    match(copied, 4, "first", "--games", 4, "--record")
    with Catalog.open_readonly(copied / "catalog.sqlite") as catalog:
        rows = {row.policy: row for row in standing_of_run(catalog).rows}
    assert rows["first"].rank is not None
    assert rows["first"].kind == "fixed"
    assert (rows["first"].rated_games, rows["main@4"].rated_games) == (0, 0)
    assert figures(copied, 4, "first", "--games", 2)["expected_by_trueskill"] is None


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("latest", "random", "--sample"), "have the likeliest moves; leave out --sample"),
        (("9", "4", "--greedy"), "have sampled moves; leave out --greedy"),
        (("9", "latest"), "against itself"),
    ],
)
def test_games_that_would_not_mean_the_same_are_not_recorded(
    copied: Path, arguments: tuple[str, ...], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        CliRunner().invoke(app, ["match", str(copied), *arguments, "--record"], catch_exceptions=False)
    assert read_recorded(copied / "recorded.sqlite") == []


def league(run: Path, *arguments: object) -> Any:
    done = CliRunner().invoke(app, ["league", str(run), *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done


def test_the_league_plays_the_games_it_needs_and_keeps_them(copied: Path) -> None:
    found = json.loads(league(copied, "--play", 31, "--json").stdout)
    played = found["played"]
    assert (played["games"], played["failed"], played["absent"]) == (31, 0, [])
    assert (played["before"]["unmet"], played["after"]["unmet"], played["after"]["pairs"]) == (1, 0, 1)
    assert played["after"]["margin"] < played["before"]["margin"]
    assert not (copied / "league").exists()
    names = found["payoffs"]["policies"]
    assert found["payoffs"]["games"][names.index("main@4")][names.index("random")] == 31
    more = json.loads(league(copied, "--play", 9, "--json").stdout)
    assert more["played"]["games"] == 9, "other games than those before"
    assert len(read_recorded(copied / "recorded.sqlite")) == 40
    seats = [seats[0] for _, seats, _ in read_recorded(copied / "recorded.sqlite")]
    assert abs(seats.count("random") - seats.count("main@4")) <= 2
    said = " ".join(league(copied, "--play", 2).stdout.split())
    assert "played 2 games between 1 pairs; recorded in" in said
    assert "recorded games count for Elo, not for TrueSkill" in said


def test_games_that_were_over_when_the_command_was_stopped_are_kept(copied: Path) -> None:
    def stop(over: int) -> None:
        if over >= 5:
            raise KeyboardInterrupt

    directory, config = open_run(copied)
    with pytest.raises(KeyboardInterrupt):
        play_most_telling(Table(directory, config, None), 500, seed=0, tell=stop)
    kept = len(read_recorded(copied / "recorded.sqlite"))
    assert 5 <= kept < 500


def test_a_league_of_one_that_can_play_says_so(copied: Path) -> None:
    shutil.rmtree(copied / "policies" / "main" / "00000004")
    with pytest.raises(ConfigError, match="fewer than two members that can play"):
        CliRunner().invoke(app, ["league", str(copied), "--play", "3"], catch_exceptions=False)
