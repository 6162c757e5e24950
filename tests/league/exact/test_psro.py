"""Exact PSRO: known values, NashConv equal to OpenSpiel's, and a population that goes on exactly where it was."""

import numpy as np
import pytest

from ludus.config import StopConfig
from ludus.games.sequence_form_building import build_sequence_form, load_turn_based, to_open_spiel
from ludus.league.exact import ExactPsro, reason_to_stop


def solve(game: str, *, generations: int = 100, target: float = 1e-9, **options: str) -> ExactPsro:
    psro = ExactPsro(build_sequence_form(game), **options)  # type: ignore[arg-type]
    while psro.generation < generations and psro.nash_conv > target and not psro.is_solved:
        psro.advance()
    return psro


@pytest.mark.parametrize("ties", ["even", "first"])
@pytest.mark.parametrize(
    ("game", "value"),
    [
        ("kuhn_poker", -1 / 18),
        ("matrix_rps", 0.0),
        ("matrix_mp", 0.0),
        ("goofspiel(num_cards=3,imp_info=True,points_order=descending)", 0.0),
        ("nim(pile_sizes=2;3)", 1.0),
        ("nim(pile_sizes=1;0)", -1.0),
    ],
)
def test_known_games_come_to_their_known_value(game: str, value: float, ties: str) -> None:
    psro = solve(game, ties=ties)
    assert psro.nash_conv < 1e-9
    assert psro.value == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize(
    ("game", "generations"),
    [
        ("kuhn_poker", 4),
        ("leduc_poker", 12),
        ("liars_dice(dice_sides=3)", 10),
        ("blotto(coins=4,fields=3,players=2)", 1),
    ],
)
def test_nash_conv_is_that_of_open_spiel(game: str, generations: int) -> None:
    from open_spiel.python.algorithms import exploitability

    psro = solve(game, generations=generations)
    theirs = exploitability.nash_conv(load_turn_based(game), to_open_spiel(psro.form, psro.policies()))
    assert psro.generation == generations
    assert psro.nash_conv == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize("solver", ["nash", "uniform"])
def test_the_table_holds_what_every_pair_comes_to(solver: str) -> None:
    psro = solve("kuhn_poker", generations=9, meta_solver=solver)
    rows, columns = (population.plans for population in psro.populations)
    whole = [[psro.form.payoff(row, column) for column in columns] for row in rows]
    np.testing.assert_allclose(psro.payoffs, whole, atol=1e-12)


def test_uniform_weights_are_fictitious_play_which_goes_on_with_policies_it_has() -> None:
    psro = solve("kuhn_poker", generations=78, meta_solver="uniform")
    assert psro.generation == 78
    assert psro.payoffs.shape == (79, 79)
    assert 0.01 < psro.nash_conv < 0.1


def test_a_population_that_was_saved_goes_on_exactly() -> None:
    psro = solve("leduc_poker", generations=30)
    copy = ExactPsro(psro.form)
    copy.load({name: tensor.copy() for name, tensor in psro.tensors().items()})
    for each in (psro, copy):
        for _ in range(5):
            each.advance()
    expected, found = psro.tensors(), copy.tensors()
    assert expected.keys() == found.keys()
    for name, tensor in expected.items():
        np.testing.assert_array_equal(found[name], tensor, err_msg=name)
    for mine, theirs in zip(psro.responses, copy.responses, strict=True):
        assert mine.value == theirs.value
        np.testing.assert_array_equal(mine.choices, theirs.choices)


def test_no_policy_is_in_a_population_twice() -> None:
    for population in solve("leduc_poker", generations=40).populations:
        choices = population.tensors()["choices"]
        assert len(np.unique(choices, axis=0)) == len(choices)


def test_stoppers_speak_when_their_time_has_come() -> None:
    never = StopConfig(nash_conv=None, generations=1000)
    psro = solve("kuhn_poker", generations=2)
    assert reason_to_stop(psro, never) == ""
    assert "generation 2 was the last" in reason_to_stop(psro, StopConfig(nash_conv=None, generations=2))
    assert "is at most 0.9 (population.stop.nash_conv)" in reason_to_stop(psro, StopConfig(nash_conv=0.9))
    psro.curve = [0.9, 0.2, 0.5, 0.5]
    assert "no lower NashConv in 2 generations" in reason_to_stop(psro, StopConfig(nash_conv=None, plateau=2))
    assert reason_to_stop(psro, StopConfig(nash_conv=None, plateau=3)) == ""
    assert "no policy does better" in reason_to_stop(solve("matrix_rps"), StopConfig(nash_conv=None))
