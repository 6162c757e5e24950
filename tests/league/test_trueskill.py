"""TrueSkill: the numbers of the reference package, and finite ones where it gives up."""

from __future__ import annotations

import math
import random

import pytest
import trueskill

from ludus.config import TrueSkillConfig
from ludus.league import Rating, TrueSkill
from ludus.league.ratings.trueskill import draw_moments, win_moments

SKILL = TrueSkill()
START = Rating(25.0, 25 / 3)


def close(ours: Rating, mu: float, sigma: float, tolerance: float = 1e-8) -> bool:
    return abs(ours.mu - mu) < tolerance and abs(ours.sigma - sigma) < tolerance


def test_win_from_the_start_gives_the_known_numbers() -> None:
    winner, loser = SKILL.rate_1v1(START, START)
    assert close(winner, 29.39583201999916, 7.171475587326195)
    assert close(loser, 20.604167980000835, 7.171475587326195)


def test_draw_of_equals_narrows_both_and_moves_neither() -> None:
    for rating in SKILL.rate_1v1(START, START, drawn=True):
        assert close(rating, 25.0, 6.457519662317322)


def test_upset_and_its_draw_give_the_known_numbers() -> None:
    weak, strong = Rating(20.0, 5.0), Rating(30.0, 4.0)
    winner, loser = SKILL.rate_1v1(weak, strong)
    assert close(winner, 24.9300898608009, 4.264381464939039)
    assert close(loser, 26.844249617010245, 3.634801532877574)
    first, second = SKILL.rate_1v1(weak, strong, drawn=True)
    assert close(first, 23.293896887945834, 4.0951056156752745)
    assert close(second, 27.891576693497598, 3.5541514898701885)


def test_other_beta_gives_the_known_numbers() -> None:
    winner, _ = TrueSkill(TrueSkillConfig(beta=4.0)).rate_1v1(START, START)
    assert close(winner, 29.424433410432545, 7.152194171504757)


def test_three_players_give_the_known_numbers() -> None:
    first, second, third = SKILL.rate([START] * 3, [0, 1, 2])
    assert close(first, 31.675352, 6.655985, 1e-6)
    assert close(second, 25.0, 6.207897, 1e-6)
    assert close(third, 18.324648, 6.655985, 1e-6)


def test_quality_gives_the_known_numbers() -> None:
    assert SKILL.quality([START, START]) == pytest.approx(0.4472135954999579, abs=1e-12)
    assert SKILL.quality([Rating(20.0, 5.0), Rating(30.0, 4.0)]) == pytest.approx(0.34988385067800365, abs=1e-12)


@pytest.mark.parametrize("players", [2, 3, 4, 5])
@pytest.mark.parametrize("draw_probability", [0.02, 0.1, 0.5])
def test_free_for_all_equals_the_package(players: int, draw_probability: float) -> None:
    rng = random.Random(f"{players} {draw_probability}")
    ours = TrueSkill(TrueSkillConfig(draw_probability=draw_probability))
    theirs = trueskill.TrueSkill(draw_probability=draw_probability)
    for _ in range(40):
        ratings = [Rating(rng.uniform(5, 45), rng.uniform(0.5, 9)) for _ in range(players)]
        ranks = [rng.randrange(players) for _ in range(players)]
        groups = [(theirs.create_rating(r.mu, r.sigma),) for r in ratings]
        expected = theirs.rate(groups, ranks)
        for mine, (other,) in zip(ours.rate(ratings, ranks), expected, strict=True):
            assert close(mine, other.mu, other.sigma)
        assert ours.quality(ratings) == pytest.approx(theirs.quality(groups), abs=1e-9)


def test_exact_error_function_changes_only_the_sixth_digit() -> None:
    rng = random.Random(3)
    exact = trueskill.TrueSkill(backend="scipy")
    for _ in range(5):
        a, b = (Rating(rng.uniform(15, 35), rng.uniform(1, 9)) for _ in range(2))
        ranks = [0, rng.randrange(2)]
        expected = exact.rate([(exact.create_rating(r.mu, r.sigma),) for r in (a, b)], ranks)
        for mine, (other,) in zip(SKILL.rate([a, b], ranks), expected, strict=True):
            assert close(mine, other.mu, other.sigma, 1e-5)


def test_order_of_players_does_not_matter() -> None:
    ratings = [Rating(20.0, 3.0), Rating(30.0, 5.0), Rating(25.0, 8.0)]
    forward = SKILL.rate(ratings, [2, 0, 1])
    backward = SKILL.rate(ratings[::-1], [1, 0, 2])
    assert forward == backward[::-1]


def test_win_probability_is_a_half_among_equals_and_complements() -> None:
    a, b = Rating(31.0, 2.0), Rating(24.0, 6.0)
    assert SKILL.win_probability(START, START) == pytest.approx(0.5)
    assert SKILL.win_probability(a, b) + SKILL.win_probability(b, a) == pytest.approx(1.0)
    assert SKILL.win_probability(a, b) > 0.7


@pytest.mark.parametrize("gap", [0.0, 1.0, 50.0, 1e3, 1e6])
@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.parametrize("draw_probability", [0.0, 1e-9, 0.1, 0.999])
def test_impossible_results_stay_finite(gap: float, drawn: bool, draw_probability: float) -> None:
    skill = TrueSkill(TrueSkillConfig(draw_probability=draw_probability))
    for sign in (1.0, -1.0):
        ratings = [Rating(25.0, 0.5), Rating(25.0 + sign * gap, 0.5), Rating(25.0, 8.0)]
        for rated in (*skill.rate_1v1(*ratings[:2], drawn=drawn), *skill.rate(ratings, [0, 0 if drawn else 1, 2])):
            assert math.isfinite(rated.mu)
            assert math.isfinite(rated.sigma)
            assert 0 < rated.sigma < 9


def test_series_of_the_tail_continues_the_formula() -> None:
    margin = 0.7
    for near, far in (
        (win_moments(margin - 14.999, margin), win_moments(margin - 15.001, margin)),
        (draw_moments(14.999 + margin, margin), draw_moments(15.001 + margin, margin)),
    ):
        assert abs(far[0]) == pytest.approx(abs(near[0]) + 0.002, abs=1e-3)
        assert far[1] == pytest.approx(near[1], abs=1e-4)


def test_rating_one_player_changes_nothing() -> None:
    assert SKILL.rate([START], [0]) == [START]
