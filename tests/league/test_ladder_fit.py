"""The ladder's ratings: one fit of the whole table that equals others' fits, whatever the order of the games."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.league.test_ladder import main, make_pool, shown, standing_of_pool

from ludus.config import LeagueConfig
from ludus.league import Cell, Pool, fit_elo
from ludus.league.matchmaking.match_planner import plan_rated_games, score_errors
from ludus.league.matchmaking.member import Member
from ludus.league.payoffs.cells import wilson_interval
from ludus.league.ratings.elo import POINTS_PER_NATURAL, expected_score
from ludus.league.ratings.trueskill import TrueSkill
from ludus.records import EpisodeId, Match, PolicyName, PolicyRef
from ludus.reports.ladder import Standing, make_standing
from ludus.reports.tables import ladder_table, payoff_table


def random_table(players: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Wins and draws of a league in which half of the pairs never met."""
    rng = np.random.default_rng(seed)
    wins, draws = np.zeros((2, players, players))
    for one in range(players):
        for other in range(one):
            if rng.random() < 0.5:
                wins[one, other], wins[other, one] = rng.integers(0, 30, 2)
                draws[one, other] = draws[other, one] = rng.integers(0, 9)
    return wins, draws


@pytest.mark.parametrize("seed", range(5))
def test_the_fit_is_that_of_choix(seed: int) -> None:
    """Draws and the imagined player as comparisons: all counts twice, so that half a win is a whole one."""
    choix = pytest.importorskip("choix")
    players = 9
    wins, draws = random_table(players, seed)
    comparisons: list[tuple[int, int]] = []
    for one, other in np.ndindex(players, players):
        comparisons += [(one, other)] * int(2 * wins[one, other] + draws[one, other])
    for one in range(players):
        comparisons += [(one, players), (players, one)]
    theirs = choix.ilsr_pairwise(players + 1, comparisons, max_iter=100_000, tol=1e-12)[:players]
    ours = (fit_elo(wins, draws).ratings - 1000) / POINTS_PER_NATURAL
    np.testing.assert_allclose(ours, theirs - theirs.mean(), atol=1e-6)


def test_the_fit_is_the_maximum_that_a_general_optimiser_finds() -> None:
    wins, draws = random_table(7, seed=11)
    points = wins + draws / 2

    def loss(ratings: np.ndarray) -> float:
        gaps = ratings[:, None] - ratings[None, :]
        imagined = 0.5 * (np.logaddexp(0, ratings) + np.logaddexp(0, -ratings)).sum()
        return float((points * np.logaddexp(0, -gaps)).sum() + imagined)

    def slope(ratings: np.ndarray) -> np.ndarray:
        shares = 1 / (1 + np.exp(-(ratings[:, None] - ratings[None, :])))
        return np.asarray(((points + points.T) * shares - points).sum(axis=1) + 1 / (1 + np.exp(-ratings)) - 0.5)

    theirs = minimize(loss, np.zeros(7), jac=slope, method="BFGS", options={"gtol": 1e-11}).x
    ours = (fit_elo(wins, draws).ratings - 1000) / POINTS_PER_NATURAL
    np.testing.assert_allclose(ours, theirs - theirs.mean(), atol=1e-6)


def test_the_order_of_games_changes_nothing_but_trueskill() -> None:
    matches = [
        Match(id=EpisodeId(f"{k}"), game="g", seats=seats, returns=returns)
        for k, (seats, returns) in enumerate(games_of_a_league())
    ]
    standings = []
    for seed in range(3):
        pool = Pool(LeagueConfig(), main(3))
        for version in range(4):
            pool.add_snapshot(main(version), version)
        if seed:
            random.Random(seed).shuffle(matches)
        for match in matches:
            pool.record(match)
        standings.append(standing_of_pool(pool).to_json())
    rated = [
        [(row["rank"], row["policy"], row["elo"], row["elo_error"]) for row in each["ladder"]] for each in standings
    ]
    assert rated[0] == rated[1] == rated[2]
    assert json.dumps(standings[0]["payoffs"]) == json.dumps(standings[1]["payoffs"])
    assert len({json.dumps([row["mu"] for row in each["ladder"]]) for each in standings}) == 3


def games_of_a_league() -> list[tuple[tuple[PolicyRef, PolicyRef], tuple[float, float]]]:
    rng = random.Random(5)
    games = []
    for version in range(4):
        for opponent in [PolicyRef(name=PolicyName("random")), *(main(earlier) for earlier in range(version))]:
            for _ in range(40):
                value = rng.choice([1.0, 1.0, 1.0, 0.0, -1.0])
                games.append(((main(version), opponent), (value, -value)))
    return games


def standing_of(names: Sequence[str], shares: np.ndarray, games: np.ndarray, seed: int) -> Standing:
    """A league in which row beats column with these chances, so many times as were played."""
    rng = np.random.default_rng(seed)
    cells: dict[tuple[str, str], Cell] = {}
    members = {name: member(name) for name in names}
    for one, other in zip(*np.nonzero(np.triu(games)), strict=True):
        count = int(games[one, other])
        won = int(rng.binomial(count, shares[one, other]))
        for me, opponent, wins in ((names[one], names[other], won), (names[other], names[one], count - won)):
            cells[me, opponent] = Cell(games=count, wins=wins, losses=count - wins)
            members[me].games += count
            members[me].wins += wins
            members[me].losses += count - wins
    return make_standing(members.values(), cells)


def member(name: str) -> Member:
    is_version = "@" in name
    ref = PolicyRef.parse(name) if is_version else PolicyRef(name=PolicyName(name))
    return Member(ref=ref, kind="snapshot" if is_version else "fixed", rating=TrueSkill().start())


def demo_like(seed: int) -> Standing:
    """As in the demo: each version beats the two before it clearly, the last play 400 games, and two fixed players meet
    everybody, one of whom loses a little more often to later versions."""
    versions = 21
    names = [*(f"main@{k}" for k in range(versions)), "mcts-25", "random"]
    shares, games = np.full((len(names), len(names)), 0.5), np.zeros((len(names), len(names)))
    for version in range(versions):
        many = 400 if version == versions - 1 else 40
        for earlier in range(max(version - 2, 0), version):
            shares[version, earlier], games[version, earlier] = 0.8, many
        shares[version, -2], games[version, -2] = 0.3 + 0.4 * min(version / 8, 1.0), many
        shares[version, -1], games[version, -1] = 0.8 + 0.2 * min(version / 3, 1.0), many
    games, shares = np.maximum(games, games.T), np.where(games >= games.T, shares, 1 - shares.T)
    return standing_of(names, shares, games, seed)


@pytest.mark.parametrize("seed", range(3))
def test_no_pair_of_a_league_like_the_demos_contradicts_its_ladder_beyond_intervals(seed: int) -> None:
    standing = demo_like(seed)
    assert len(standing.compared_pairs()) == 81
    assert standing.contradictions() == []
    assert standing.fit.pair_spread > 50, "versions beat each other by more than what they gain on the fixed players"
    table = standing.payoffs
    for one, other in standing.compared_pairs():
        found = standing.expected(table.policies[one], table.policies[other])
        assert found is not None
        low, high = wilson_interval(float(table.score[one, other]), int(table.games[one, other]))
        assert found.interval[0] < high, (table.policies[one], table.policies[other])
        assert low < found.interval[1], (table.policies[one], table.policies[other])


def test_ratings_of_a_transitive_league_have_the_order_of_the_truth_and_honest_intervals() -> None:
    truth = np.linspace(1400, 600, 9)
    names = [f"main@{k}" for k in range(9)]
    shares = np.array([[expected_score(a, b) for b in truth] for a in truth])
    games, covered = np.full((9, 9), 60), []
    for seed in range(60):
        standing = standing_of(names, shares, games, seed)
        rated = {row.policy: row for row in standing.rows}
        for name, rating in zip(names, truth, strict=True):
            covered.append(abs((rated[name].elo or 0.0) - rating) <= rated[name].elo_margin)
        assert standing.contradictions() == []
        assert standing.rows[0].policy in names[:2]
    assert 0.92 < np.mean(covered) < 0.985


def test_a_pair_that_the_ladder_cannot_explain_is_expected_to_go_on_as_it_did() -> None:
    """A circle: everybody is rated alike, and nobody's pair is even."""
    names = ["a@1", "b@1", "c@1"]
    shares = np.array([[0.5, 0.8, 0.2], [0.2, 0.5, 0.8], [0.8, 0.2, 0.5]])
    standing = standing_of(names, shares, np.full((3, 3), 400), seed=0)
    elos = [row.elo or 0.0 for row in standing.rows]
    assert max(elos) - min(elos) < 30
    assert standing.contradictions() == []
    assert standing.fit.pair_spread > 100
    found = standing.expected("a@1", "b@1")
    assert found is not None
    assert found.score == pytest.approx(0.8, abs=0.05)
    assert found.interval[0] > 0.7
    stranger = standing.fit.expected(0, 1)
    assert stranger[1] < 0.3 < 0.7 < stranger[2], "without its own games, a pair may be anything"


def test_who_beats_a_better_rated_one_beyond_all_doubt_is_named() -> None:
    """Eight who are beaten by `good` and beat `odd`; but `odd` beats `good` every time."""
    names = ["good", "odd", *(f"main@{k}" for k in range(60))]
    count = len(names)
    shares = np.full((count, count), 0.5)
    shares[0, 2:], shares[2:, 0], shares[1, 2:], shares[2:, 1] = 0.7, 0.3, 0.3, 0.7
    shares[0, 1], shares[1, 0] = 0.1, 0.9
    standing = standing_of(names, shares, np.full((count, count), 60), seed=1)
    assert standing.contradictions() == [("good", "odd")]
    text = " ".join(shown(ladder_table(standing)).split())
    upsets = len(standing.upsets())
    assert f"{upsets} have a result against this order (95 %), 1 of them with ratings that are apart: odd beats" in text


def test_upsets_of_members_that_are_rated_alike_are_counted_and_called_no_contradiction() -> None:
    """A circle of three: whatever its order, a result that nobody can call chance goes against it."""
    shares = np.array([[0.5, 0.8, 0.2], [0.2, 0.5, 0.8], [0.8, 0.2, 0.5]])
    standing = standing_of(["a@1", "b@1", "c@1"], shares, np.full((3, 3), 400), seed=0)
    assert standing.contradictions() == []
    assert len(standing.upsets()) in (1, 2)
    facts = standing.to_json()["fit"]
    assert [list(pair) for pair in facts["upsets"]] == [
        [standing.payoffs.policies[i], standing.payoffs.policies[j]] for i, j in standing.upsets()
    ]
    text = " ".join(shown(ladder_table(standing)).split())
    wanted = f"of 3 pairs with 40+ games, {len(standing.upsets())} have a result against this order (95 %), 0 of them"
    assert wanted in text


def test_games_of_three_count_once_for_how_sure_ratings_are() -> None:
    """Two seats against one are two comparisons of one game."""
    errors = []
    for seats in (("a", "b"), ("a", "b", "b")):
        pool = Pool(LeagueConfig(), PolicyRef(name=PolicyName("main")))
        for number in range(60):
            value = 1.0 if number % 3 else -1.0
            refs = tuple(PolicyRef(name=PolicyName(name)) for name in seats)
            returns = tuple(value if name == "a" else -value for name in seats)
            pool.record(Match(id=EpisodeId(str(number)), game="g", seats=refs, returns=returns))
        errors.append([row.elo_error for row in standing_of_pool(pool).rows if row.rank is not None])
    assert errors[0] == pytest.approx(errors[1])


def test_ladder_payoff_table_and_picture_number_members_alike() -> None:
    standing = standing_of_pool(make_pool(versions=30, games=4))
    place = {row.policy: row.rank for row in standing.rows}
    table = standing.most_telling_payoffs(10)
    assert table.ranks == tuple(place[policy] for policy in table.policies)
    assert table.ranks != tuple(range(1, 11)), "random is far below"
    text = shown(payoff_table(standing))
    assert f"#{place['random']} random" in text
    assert f"#{place['random']}" in text.splitlines()[2]


def test_games_are_planned_where_the_table_is_least_certain() -> None:
    wins = np.array([[0, 30, 0, 60], [30, 0, 0, 0], [0, 0, 0, 50], [40, 0, 50, 0]], float)
    fit, games = fit_elo(wins), wins + wins.T
    planned = plan_rated_games(fit, games, 40, block=2)
    assert sum(planned.values()) == 40
    assert all(one < other for one, other in planned)
    assert set(planned) == {(0, 2), (1, 2), (1, 3)}, "who never met"
    total = (score_errors(fit, after(games, planned)) ** 2).sum()
    pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    for other in (dict.fromkeys(pairs, 40 / 6), {(0, 2): 40}, {(1, 2): 40}, {(1, 3): 20, (0, 2): 20}):
        assert total < (score_errors(fit, after(games, other)) ** 2).sum() + 1e-12
    assert sum(plan_rated_games(fit, games, 7, block=2).values()) == 7
    assert plan_rated_games(fit_elo([[0]]), np.zeros((1, 1)), 5, block=2) == {}


def after(games: np.ndarray, planned: Mapping[tuple[int, int], float]) -> np.ndarray:
    more = np.array(games, float)
    for (one, other), count in planned.items():
        more[one, other] += count
        more[other, one] += count
    return more
