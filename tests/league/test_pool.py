"""The pool: who is rated, who is not, what is remembered, and for how long."""

from __future__ import annotations

import json
import random

import pytest

from ludus.config import LeagueConfig
from ludus.errors import LudusError
from ludus.league import Cell, Pool, Rating
from ludus.league.matchmaking.pool import RETIRED_KEPT
from ludus.records import EpisodeId, Match, PolicyName, PolicyRef, PolicyVersion


def main(version: int) -> PolicyRef:
    return PolicyRef(name=PolicyName("main"), version=PolicyVersion(version))


def fixed(name: str) -> PolicyRef:
    return PolicyRef(name=PolicyName(name))


def match(*results: tuple[PolicyRef, float], game: str = "g") -> Match:
    seats, returns = zip(*results, strict=True)
    return Match(id=EpisodeId("e"), game=game, seats=seats, returns=returns)


def make_pool(pool_size: int = 4, versions: int = 0) -> Pool:
    pool = Pool(LeagueConfig(pool_size=pool_size), main(0))
    for version in range(versions):
        pool.add_snapshot(main(version), version * 100)
        pool.set_learner(main(version))
    return pool


def test_win_against_a_fixed_player_rates_both() -> None:
    pool = make_pool()
    pool.record(match((main(3), 1.0), (fixed("random"), -1.0)))
    assert pool.learner.rating.mu == pytest.approx(29.3958320)
    assert pool.fixed[0].rating.mu == pytest.approx(20.6041680)
    assert (pool.learner.wins, pool.fixed[0].losses, pool.match_count) == (1, 1, 1)


def test_mirror_match_counts_and_is_never_rated() -> None:
    pool = make_pool(versions=2)
    for _ in range(50):
        pool.record(match((main(1), 1.0), (main(1), -1.0)))
    snapshot = pool.find(main(1))
    assert snapshot is not None
    assert snapshot.rating == Rating(25.0, 25 / 3)
    assert (snapshot.games, snapshot.mirror_games, snapshot.wins, snapshot.losses) == (50, 50, 0, 0)


def test_two_unlisted_versions_of_the_learner_are_one_player() -> None:
    pool = make_pool()
    pool.record(match((main(7), 1.0), (main(8), -1.0)))
    assert pool.learner.rating == pool.trueskill.start()
    assert pool.learner.mirror_games == 1


def test_listed_version_is_itself_even_while_it_learns() -> None:
    pool = make_pool(versions=3)
    pool.record(match((main(2), 1.0), (main(0), -1.0)))
    newest, oldest = pool.find(main(2)), pool.find(main(0))
    assert newest is not None
    assert oldest is not None
    assert newest.rating.mu > 25 > oldest.rating.mu
    assert pool.learner.games == 0
    assert pool.recent_score(oldest) == pytest.approx(0.75)


def test_single_player_game_counts_and_is_not_rated() -> None:
    pool = make_pool()
    pool.record(match((main(0), 12.5)))
    assert (pool.learner.games, pool.learner.mirror_games, pool.learner.wins) == (1, 0, 0)
    assert pool.learner.rating == pool.trueskill.start()


def test_draw_by_rounding_is_a_draw() -> None:
    pool = make_pool()
    pool.record(match((main(0), 0.1 + 0.2), (fixed("random"), 0.3)))
    assert (pool.learner.draws, pool.fixed[0].draws) == (1, 1)


def test_unrated_match_counts_only() -> None:
    pool = make_pool()
    pool.record(match((main(0), 1.0), (fixed("random"), -1.0)), rated=False)
    assert pool.learner.wins == 1
    assert pool.learner.rating == pool.trueskill.start()


def test_several_players_are_ranked_with_ties() -> None:
    pool = make_pool()
    pool.record(match((fixed("a"), 2.0), (main(0), 2.0), (fixed("b"), -4.0)))
    a, b = pool.fixed
    expected = pool.trueskill.rate([pool.trueskill.start()] * 3, [0, 0, 1])
    assert [a.rating, pool.learner.rating, b.rating] == expected
    assert (a.draws, pool.learner.draws, b.losses) == (1, 1, 1)


def test_member_on_several_seats_counts_as_one_player_with_its_mean_return() -> None:
    pool = make_pool()
    pool.record(match((main(0), 3.0), (fixed("a"), -1.0), (main(0), -1.0), (fixed("b"), -1.0)))
    expected = pool.trueskill.rate([pool.trueskill.start()] * 3, [0, 1, 1])
    assert [pool.learner.rating, *(member.rating for member in pool.fixed)] == expected
    assert (pool.learner.games, pool.learner.wins) == (1, 1)


def test_payoffs_agree_from_both_sides_and_know_seat_and_game() -> None:
    pool = make_pool()
    pool.record(match((main(0), 2.0), (fixed("random"), -2.0), game="kuhn"))
    pool.record(match((fixed("random"), 1.0), (main(0), -1.0), game="kuhn"))
    pool.record(match((main(0), 0.0), (fixed("random"), 0.0), game="ttt"))
    pairs = pool.payoffs.by_pair()
    mine, theirs = pairs["main", "random"], pairs["random", "main"]
    assert (mine.games, mine.wins, mine.draws, mine.losses, mine.total_return) == (3, 1, 1, 1, 1.0)
    assert (theirs.wins, theirs.draws, theirs.losses, theirs.total_return) == (1, 1, 1, -1.0)
    assert ["kuhn", "main", "random", 1, 1, 0, 0, 1, -1.0] in pool.payoffs.state()
    assert Cell().mean_return is None
    assert Cell().score is None


def test_new_version_starts_where_the_last_one_stands_but_less_surely() -> None:
    pool = make_pool(versions=1)
    for _ in range(40):
        pool.record(match((main(0), 1.0), (fixed("random"), -1.0)))
    first = pool.find(main(0))
    assert first is not None
    second = pool.add_snapshot(main(9), 900)
    assert second.rating == Rating(first.rating.mu, 2 * first.rating.sigma)
    assert (second.parent, second.created_step) == (main(0), 900)
    assert pool.add_snapshot(main(9), 1_000_000) is second


def test_retiring_keeps_the_newest_the_best_and_the_fixed() -> None:
    pool = make_pool(pool_size=4, versions=8)
    pool.add_fixed("random")
    champion = pool.find(main(1))
    assert champion is not None
    champion.rating = Rating(40.0, 1.0)
    retired = pool.retire()
    kept = [member.ref for member in pool.snapshots]
    assert len(kept) == 4
    assert {main(1), main(6), main(7)} <= set(kept)
    assert set(retired) == {main(v) for v in range(8)} - set(kept)
    assert pool.retire() == ()
    assert [member.key for member in pool.fixed] == ["random"]
    assert all(pool.find(ref) is not None for ref in retired)


def test_pool_of_one_keeps_the_newest() -> None:
    pool = make_pool(pool_size=1, versions=3)
    assert pool.retire() == (main(0), main(1))
    assert [member.ref for member in pool.snapshots] == [main(2)]


def test_same_matches_give_the_same_state_and_state_round_trips_exactly() -> None:
    def play(pool: Pool, rng: random.Random, games: int) -> None:
        for _ in range(games):
            seats = rng.sample([main(0), main(1), main(50), fixed("random"), fixed("mcts-25")], 2)
            value = rng.choice([-1.0, 0.0, 1.0])
            pool.record(match((seats[0], value), (seats[1], -value)))

    whole, halves = make_pool(versions=2), make_pool(versions=2)
    rng = random.Random(5)
    play(whole, rng, 300)
    rng = random.Random(5)
    play(halves, rng, 150)
    resumed = make_pool()
    resumed.load_state(json.loads(json.dumps(halves.state(), allow_nan=False)))
    play(resumed, rng, 150)
    assert json.dumps(resumed.state()) == json.dumps(whole.state())


def test_state_of_another_learner_is_refused() -> None:
    other = Pool(LeagueConfig(), fixed("other"))
    with pytest.raises(LudusError, match="not one of other"):
        other.load_state(make_pool().state())


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (match((main(0), float("nan")), (fixed("random"), 0.0)), "not finite"),
        (Match(id=EpisodeId("e"), game="g", seats=(main(0),), returns=(1.0, 2.0)), "1 seats but 2 returns"),
        (match((PolicyRef(name=PolicyName("other"), version=PolicyVersion(4)), 0.0), (main(0), 0.0)), "other@4"),
    ],
)
def test_match_that_makes_no_sense_is_refused_and_changes_no_rating(bad: Match, message: str) -> None:
    pool = make_pool()
    with pytest.raises(LudusError, match=message):
        pool.record(bad)
    assert pool.learner.rating == pool.trueskill.start()


def test_learner_keeps_its_name() -> None:
    pool = make_pool()
    with pytest.raises(LudusError):
        pool.set_learner(fixed("random"))
    with pytest.raises(LudusError):
        pool.add_fixed("main")


def test_memory_is_bounded_over_many_matches_and_versions() -> None:
    pool = make_pool(pool_size=8)
    pool.add_fixed("random")
    rng = random.Random(0)
    sizes = []
    for version in range(1000):
        pool.add_snapshot(main(version), version)
        pool.set_learner(main(version))
        opponents = [member.ref for member in (*pool.snapshots, *pool.fixed)]
        for _ in range(100):
            opponent = rng.choice(opponents)
            value = rng.choice([-1.0, 1.0])
            pool.record(match((main(version), value), (opponent, -value)))
        pool.retire()
        if version % 100 == 99:
            sizes.append((len(pool.payoffs.state()), len(json.dumps(pool.state()))))
    assert pool.match_count == 100_000
    assert len(pool.members) <= 8 + RETIRED_KEPT + 2
    assert sizes[-1][0] <= 1.1 * sizes[4][0]
    assert sizes[-1][1] <= 1.1 * sizes[4][1]
