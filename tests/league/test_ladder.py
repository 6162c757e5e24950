"""The ladder and the payoffs as people see them: from a pool or a catalog, as text, JSON and pictures."""

from __future__ import annotations

import io
import json
import random
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from ludus.config import LeagueConfig
from ludus.league import Pool
from ludus.league.matchmaking.member import MATCHES_KEPT
from ludus.records import EpisodeId, Match, PolicyName, PolicyRef, PolicyVersion
from ludus.reports.charts import ladder_figure, render, score_figure
from ludus.reports.ladder import Standing, make_standing, standing_of_run
from ludus.reports.tables import ladder_table, payoff_table
from ludus.storage.catalog import Catalog


def main(version: int) -> PolicyRef:
    return PolicyRef(name=PolicyName("main"), version=PolicyVersion(version))


def make_pool(versions: int = 4, games: int = 10) -> Pool:
    """Later versions win against earlier ones, most of the time; everybody beats `random`."""
    rng = random.Random(0)
    pool = Pool(LeagueConfig(pool_size=max(versions // 2, 1)), main(0))
    number = 0
    for version in range(versions):
        opponents = [PolicyRef(name=PolicyName("random")), *(member.ref for member in pool.snapshots[-2:])]
        pool.add_snapshot(main(version), 1000 * version)
        pool.set_learner(main(version))
        for opponent in opponents:
            for game in range(games):
                value = rng.choice([1.0, 1.0, 1.0, 0.0, -1.0])
                seats, returns = ((main(version), opponent), (value, -value))
                if game % 2:
                    seats, returns = seats[::-1], returns[::-1]
                match = Match(id=EpisodeId(f"e{number}"), game="g", seats=seats, returns=returns)
                pool.record(match)
                number += 1
        pool.retire()
    return pool


def shown(*tables: object, width: int = 80) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    for table in tables:
        console.print(table)
    return console.export_text()


def same(a: Standing, b: Standing) -> bool:
    return json.dumps(a.to_json()) == json.dumps(b.to_json())


def standing_of_pool(pool: Pool) -> Standing:
    return make_standing(pool.members, pool.payoffs.by_pair())


def test_a_lone_seat_against_two_that_is_as_good_as_they_scores_a_half() -> None:
    """One seat of three equals wins a third of its games; the score and Elo compare it with each of the others."""
    pool, opponent = Pool(LeagueConfig(), main(0)), PolicyRef(name=PolicyName("random"))
    pool.add_snapshot(main(0), 0)
    pool.set_learner(main(0))
    for number in range(30):
        lone, best = number % 3, number // 3 % 3
        seats = tuple(main(0) if seat == lone else opponent for seat in range(3))
        returns = tuple(2.0 if seat == best else -1.0 for seat in range(3))
        pool.record(Match(id=EpisodeId(f"e{number}"), game="g", seats=seats, returns=returns))
    standing = standing_of_pool(pool)
    ranked = {row.policy: row for row in standing.rows if row.rank is not None}
    assert {row.score for row in ranked.values()} == {0.5}
    assert [row.elo for row in ranked.values()] == pytest.approx([1000.0, 1000.0])
    assert ranked["main@0"].wins < ranked["main@0"].losses
    said = " ".join(shown(ladder_table(standing)).split())
    assert "more than two seats: won is ahead of all others, Elo and score compare pairs of seats" in said
    assert "more than two seats" not in shown(ladder_table(standing_of_pool(make_pool())))


def test_ladder_is_ordered_by_skill_and_unrated_members_come_last() -> None:
    standing = standing_of_pool(make_pool())
    rated = [row for row in standing.rows if row.rank is not None]
    assert [row.mu for row in rated] == sorted((row.mu for row in rated), reverse=True)
    assert [row.rank for row in rated] == list(range(1, len(rated) + 1))
    assert [row.policy for row in standing.rows if row.rank is None] == ["main"]
    assert set(standing.payoffs.policies) == {"random", "main@0", "main@1", "main@2", "main@3"}


def test_payoffs_mirror_each_other_and_are_blank_where_nobody_met() -> None:
    table = standing_of_pool(make_pool()).payoffs
    met = table.games > 0
    np.testing.assert_array_equal(table.games, table.games.T)
    np.testing.assert_allclose((table.score + table.score.T)[met], 1.0)
    np.testing.assert_allclose((table.mean_return + table.mean_return.T)[met], 0.0, atol=1e-12)
    assert np.isnan(table.score[~met]).all()
    assert not met.diagonal().any()


def test_catalog_gives_the_same_standing_as_the_pool(tmp_path: Path) -> None:
    pool = make_pool()
    with Catalog(tmp_path / "catalog.sqlite") as catalog:
        pool.write(catalog)
        pool.write(catalog)
        with Catalog.open_readonly(tmp_path / "catalog.sqlite") as reader:
            assert same(standing_of_run(reader), standing_of_pool(pool))
            assert reader.query("SELECT count(*) FROM matches") == [(pool.match_count,)]
            (seats, returns), *_ = reader.query("SELECT seats, returns FROM matches WHERE id = 'e0'")
            assert (json.loads(seats), json.loads(returns)) == (["main@0", "random@0"], [0.0, 0.0])


def test_catalog_keeps_the_latest_matches_only(tmp_path: Path) -> None:
    pool = make_pool(versions=1, games=0)
    with Catalog(tmp_path / "catalog.sqlite") as catalog:
        for part in range(3):
            for number in range(MATCHES_KEPT // 2):
                name = EpisodeId(f"{part}-{number}")
                pool.record(Match(id=name, game="g", seats=(main(0), main(0)), returns=(0.0, 0.0)))
            pool.write(catalog)
        assert catalog.query("SELECT count(*) FROM matches") == [(MATCHES_KEPT,)]
        assert catalog.query("SELECT count(*) FROM matches WHERE id LIKE '0-%'") == [(0,)]


def test_standing_of_a_run_without_games_is_empty_and_still_shown(tmp_path: Path) -> None:
    with Catalog(tmp_path / "catalog.sqlite") as catalog:
        empty = standing_of_run(catalog)
    assert empty.rows == ()
    assert "Ladder" in shown(ladder_table(empty), payoff_table(empty))
    for figure in (ladder_figure(empty, "x"), score_figure(empty, "x")):
        assert render(figure).startswith(b"\x89PNG")


def test_tables_fit_a_terminal_of_80_columns_whole() -> None:
    standing = standing_of_pool(make_pool(versions=30, games=4))
    text = shown(ladder_table(standing), payoff_table(standing))
    assert "…" not in text
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    assert "main (learning)" in text
    assert "not rated" in text
    assert "random" in text.split("Payoffs")[1]


def test_json_has_no_nan() -> None:
    text = json.dumps(standing_of_pool(make_pool()).to_json(), allow_nan=False)
    assert json.loads(text)["payoffs"]["score"][0][0] is None


def size_of(picture: bytes) -> tuple[int, int]:
    width, height = struct.unpack(">II", picture[16:24])
    return width, height


@pytest.mark.parametrize("versions", [1, 30])
def test_pictures_are_drawn_at_a_readable_size_for_small_and_large_leagues(versions: int) -> None:
    standing = standing_of_pool(make_pool(versions=versions, games=4))
    for figure in (ladder_figure(standing, "x: ladder"), score_figure(standing, "x: payoffs")):
        width, height = size_of(render(figure))
        assert 300 < width < 4000
        assert 200 < height < 4000


def test_importing_the_league_does_not_import_matplotlib() -> None:
    code = "import sys, ludus.league, ludus.reports.charts, ludus.cli.league; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
