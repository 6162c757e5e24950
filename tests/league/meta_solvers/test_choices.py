"""Uniform, PFSP and rectified Nash: who is met how often."""

from __future__ import annotations

import numpy as np
import pytest

from ludus.config import OpponentConfig
from ludus.errors import LudusError
from ludus.league.matchmaking.matchmaker import PFSP_WEIGHTINGS
from ludus.league.solvers import (
    nash,
    pfsp,
    rectified_nash,
    rectified_responses,
    solve,
    uniform,
    zero_sum_table,
)

ROCK_PAPER_SCISSORS = zero_sum_table([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])


def test_uniform_plays_all_or_the_newest() -> None:
    table = np.zeros((2, 4, 1))
    assert [list(strategy) for strategy in uniform(table)] == [[0.25] * 4, [1.0]]
    assert list(uniform(table, newest=1)[0]) == [0, 0, 0, 1]
    assert list(uniform(table, newest=2)[0]) == [0, 0, 0.5, 0.5]
    assert list(uniform(table, newest=9)[0]) == [0.25] * 4
    with pytest.raises(LudusError, match="newest must be at least 1, not 0"):
        uniform(table, newest=0)


WEIGHED = {
    "squared": [1.0, 0.0, 0.25],
    "variance": [0.0, 0.0, 0.25],
    "linear": [1.0, 0.0, 0.5],
    "linear_capped": [0.5, 0.0, 0.5],
}


@pytest.mark.parametrize("weighting", PFSP_WEIGHTINGS)
def test_pfsp_meets_most_often_whom_the_newest_policy_loses_to(weighting: str) -> None:
    """The newest is scissors: it gets 0 against rock, 1 against paper, 1/2 against itself."""
    weights = np.array(WEIGHED[weighting])
    for strategy in pfsp(ROCK_PAPER_SCISSORS, weighting=weighting):
        assert strategy == pytest.approx(weights / weights.sum())


def test_pfsp_weightings_are_those_of_the_config() -> None:
    literal = OpponentConfig.model_fields["weighting"].annotation
    assert set(literal.__args__) == set(PFSP_WEIGHTINGS)  # type: ignore[union-attr]


def test_pfsp_bounds_say_what_a_won_game_pays() -> None:
    table = zero_sum_table([[0.0, 0.5], [-0.5, 0.0]])
    assert pfsp(table, weighting="linear")[0] == pytest.approx([2 / 3, 1 / 3])
    assert pfsp(table, weighting="linear", bounds=(-1, 1))[0] == pytest.approx([0.75 / 1.25, 0.5 / 1.25])
    with pytest.raises(LudusError, match=r"bounds are a lowest and a highest payoff, not \(1, -1\)"):
        pfsp(table, bounds=(1, -1))
    with pytest.raises(LudusError, match=r"weighting is one of squared, .* not 'cubed'"):
        pfsp(table, weighting="cubed")


def test_pfsp_is_uniform_where_every_opponent_is_beaten() -> None:
    beaten = zero_sum_table([[-1.0, -1.0], [-1.0, -1.0]])
    assert pfsp(beaten, bounds=(-1, 1))[0] == pytest.approx([0.5, 0.5])


def test_pfsp_of_three_players_counts_the_others_newest() -> None:
    table = np.zeros((3, 2, 2, 2))
    table[0, :, 1, 1] = [1.0, -1.0]
    table[1:, 0, 1, 1], table[1:, 1, 1, 1] = -0.5, 0.5
    assert pfsp(table, weighting="linear")[0] == pytest.approx([1.0, 0.0])


def test_rectified_learners_meet_those_they_beat_or_tie_with() -> None:
    rock, paper, scissors = rectified_responses(ROCK_PAPER_SCISSORS)
    assert (rock.policy, rock.weight) == (0, pytest.approx(1 / 3))
    assert rock.opponents == pytest.approx([0.5, 0, 0.5])
    assert paper.opponents == pytest.approx([0.5, 0.5, 0])
    assert scissors.opponents == pytest.approx([0, 0.5, 0.5])
    assert rectified_nash(ROCK_PAPER_SCISSORS)[0] == pytest.approx([1 / 3] * 3)


def test_rectified_learners_are_the_support_of_the_nash_equilibrium() -> None:
    """A fourth policy that loses to all is neither trained nor met."""
    matrix = np.zeros((4, 4))
    matrix[:3, :3] = [[0, -25, 50], [25, 0, -5], [-50, 5, 0]]
    matrix[:3, 3], matrix[3, :3] = 60, -60
    responses = rectified_responses(zero_sum_table(matrix))
    assert [response.policy for response in responses] == [0, 1, 2]
    assert all(response.opponents[3] == 0 for response in responses)
    assert responses[0].opponents == pytest.approx([1 / 6, 0, 5 / 6, 0])


@pytest.mark.parametrize("seed", range(5))
def test_rectified_opponents_are_never_empty_also_where_seats_differ(seed: int) -> None:
    table = zero_sum_table(np.random.default_rng(seed).normal(size=(4, 6)))
    equilibrium = nash(table)
    value = equilibrium[0] @ table[0] @ equilibrium[1]
    for player in (0, 1):
        for response in rectified_responses(table, player):
            mine = table[0] if player == 0 else -table[0].T
            met = response.opponents > 0
            assert met.any()
            assert (mine[response.policy][met] >= (value if player == 0 else -value) - 1e-8).all()
            assert (equilibrium[1 - player][met] > 0).all()


def test_rectified_nash_of_a_shared_population_is_one_strategy() -> None:
    first, second = solve("rectified_nash", ROCK_PAPER_SCISSORS, symmetric=True)
    assert list(first) == list(second)
