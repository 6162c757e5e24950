"""Elo: the ordinary rule, the fit to all games at once, and where they are finite."""

from __future__ import annotations

import numpy as np
import pytest

from ludus.errors import LudusError
from ludus.league import EmpiricalGame, Payoffs, fit_elo, update_elo
from ludus.league.ratings.elo import expected_score, results_by_pair, results_of_game


def test_ordinary_rule_has_its_known_numbers() -> None:
    assert update_elo(1000, 1000, 1.0) == (1008.0, 992.0)
    assert update_elo(1000, 1200, 1.0) == pytest.approx((1012.1559508263673, 1187.8440491736326), abs=1e-9)
    assert update_elo(1000, 1200, 0.5) == pytest.approx((1004.1559508263673, 1195.8440491736326), abs=1e-9)
    assert update_elo(1000, 1000, 0.5, k=32) == (1000.0, 1000.0)
    assert 0.0 <= expected_score(0.0, 1e300) < 1e-200


def test_two_players_have_the_closed_form() -> None:
    """Three of four points: a gap of 400 log10(3)."""
    fitted = fit_elo([[0, 3], [1, 0]], prior_draws=0.0)
    assert fitted.ratings[0] - fitted.ratings[1] == pytest.approx(400 * np.log10(3))
    assert fitted.ratings.mean() == pytest.approx(1000.0)


def test_a_draw_is_half_a_win_for_each() -> None:
    halves = fit_elo([[0, 1], [0, 0]], [[0, 2], [2, 0]])
    wins = fit_elo([[0, 2], [1, 0]])
    assert halves.ratings == pytest.approx(wins.ratings)


def test_expected_points_equal_those_that_were_made() -> None:
    """At the maximum of the likelihood, for every player."""
    random = np.random.default_rng(0)
    wins = random.integers(1, 9, (6, 6)).astype(float)
    np.fill_diagonal(wins, 0)
    ratings = fit_elo(wins, prior_draws=0.0).ratings
    for player in range(6):
        expected = sum(
            (wins[player, other] + wins[other, player]) * expected_score(ratings[player], ratings[other])
            for other in range(6)
            if other != player
        )
        assert expected == pytest.approx(wins[player].sum(), abs=1e-8)


def test_true_strengths_are_found_from_many_games() -> None:
    random = np.random.default_rng(1)
    truth = np.array([800.0, 900, 1000, 1100, 1200])
    wins = np.zeros((5, 5))
    for one in range(5):
        for other in range(one):
            won = random.binomial(2_000, expected_score(truth[one], truth[other]))
            wins[one, other], wins[other, one] = won, 2_000 - won
    fitted = fit_elo(wins)
    assert np.abs(fitted.ratings - truth).max() < 4 * fitted.errors.max()
    assert fitted.errors.max() < 10


def test_who_never_lost_is_finite_with_the_imagined_draw_only() -> None:
    undefeated = [[0, 5], [0, 0]]
    fitted = fit_elo(undefeated)
    assert 200 < fitted.ratings[0] - fitted.ratings[1] < 2_000
    with pytest.raises(LudusError, match="need a chain of wins or draws from every player to every other"):
        fit_elo(undefeated, prior_draws=0.0)


def test_unplayed_players_stay_in_the_middle_and_are_the_least_sure() -> None:
    fitted = fit_elo([[0, 3, 0], [1, 0, 0], [0, 0, 0]])
    assert fitted.ratings[2] == pytest.approx(1000.0, abs=1e-6)
    assert np.argmax(fitted.errors) == 2
    assert fit_elo([[0]]).ratings.tolist() == [1000.0]


def test_huge_counts_stay_finite() -> None:
    fitted = fit_elo([[0, 1e12], [0, 0]])
    assert np.isfinite(fitted.ratings).all()
    assert np.isfinite(fitted.errors).all()


def test_counts_come_from_a_pool_or_from_an_empirical_game() -> None:
    payoffs, game = Payoffs(), EmpiricalGame(2, symmetric=True)
    game.add_policy("a")
    game.add_policy("b")
    for seats, returns in [
        ("ab", (1.0, -1.0)),
        ("ba", (1.0, -1.0)),
        ("ba", (0.0, 0.0)),
        ("ab", (1.0, 0.0)),
        ("aa", (1.0, -1.0)),
    ]:
        payoffs.add("g", list(seats), returns)
        game.record(tuple(seats), returns)
    wins, draws = results_by_pair(payoffs.by_pair(), ["a", "b"])
    assert wins.tolist() == [[0, 2], [1, 0]]
    assert draws.tolist() == [[0, 1], [1, 0]]
    from_game = results_of_game(game)
    assert from_game[0].tolist() == wins.tolist()
    assert fit_elo(*from_game).ratings == pytest.approx(fit_elo(wins, draws).ratings)


def test_two_populations_are_rated_on_one_scale() -> None:
    game = EmpiricalGame(2)
    game.add_policy("a", 0)
    game.add_policy("x", 1)
    game.add_policy("y", 1)
    game.record(("a", "x"), (1.0, -1.0))
    game.record(("a", "y"), (-1.0, 1.0))
    wins, _ = results_of_game(game)
    assert wins.tolist() == [[0, 1, 0], [0, 0, 0], [1, 0, 0]]
    with pytest.raises(LudusError, match="in games of 2 players, not of 3"):
        results_of_game(EmpiricalGame(3))


def test_what_are_no_counts_is_refused() -> None:
    with pytest.raises(LudusError, match=r"square matrices of one size, not \(1, 2\) and \(1, 2\)"):
        fit_elo([[1, 2]])
    with pytest.raises(LudusError, match="counts of games: finite and not negative"):
        fit_elo([[0, -1], [1, 0]])
    with pytest.raises(LudusError, match="draws are counted from both sides"):
        fit_elo([[0, 1], [1, 0]], [[0, 1], [0, 0]])
    with pytest.raises(LudusError, match="prior_draws must be finite and not negative, not -1"):
        fit_elo([[0]], prior_draws=-1)
