"""The sequence form is the game: what is computed on it is what OpenSpiel computes on the tree."""

import numpy as np
import pytest

from ludus.errors import ConfigError
from ludus.games.sequence_form import Floats, SequenceForm
from ludus.games.sequence_form_building import build_sequence_form, from_open_spiel, load_turn_based, to_open_spiel

GAMES = [
    "kuhn_poker",
    "leduc_poker",
    "matrix_rps",
    "matrix_mp",
    "liars_dice(dice_sides=3)",
    "goofspiel(num_cards=3,imp_info=True,points_order=descending)",
    "dark_hex(board_size=2,gameversion=adh)",
    "blotto(coins=4,fields=3,players=2)",
    "nim(pile_sizes=2;3)",
]


@pytest.fixture(params=GAMES, scope="module")
def form(request: pytest.FixtureRequest) -> SequenceForm:
    return build_sequence_form(request.param)


def random_policy(form: SequenceForm, seat: int, seed: int) -> Floats:
    tree = form.seats[seat]
    weights = np.random.default_rng(seed).gamma(0.5, size=tree.sequences - 1)
    policy = np.ones(tree.sequences)
    policy[1:] = weights / np.bincount(tree.owners, weights)[tree.owners]
    return policy


def test_nash_conv_and_payoffs_are_those_of_open_spiel(form: SequenceForm) -> None:
    from open_spiel.python.algorithms import expected_game_score, exploitability

    policies = [random_policy(form, seat, seed=seat) for seat in (0, 1)]
    plans = [tree.plan_of(policy) for tree, policy in zip(form.seats, policies, strict=True)]
    game, table = load_turn_based(form.game), to_open_spiel(form, policies)
    score = expected_game_score.policy_value(game.new_initial_state(), [table, table])
    assert form.payoff(*plans) == pytest.approx(score[0], abs=1e-12)
    assert form.nash_conv(*plans) == pytest.approx(exploitability.nash_conv(game, table), abs=1e-9)


def test_a_best_response_gets_its_value_however_ties_are_broken(form: SequenceForm) -> None:
    for seat in (0, 1):
        opponent = form.seats[1 - seat].plan_of(random_policy(form, 1 - seat, seed=5))
        for ties in ("even", "first"):
            response = form.best_response(seat, opponent, ties)  # type: ignore[arg-type]
            mine = form.seats[seat].plan_of(form.seats[seat].policy_of_choices(response.choices))
            payoff = form.payoff(mine, opponent) if seat == 0 else -form.payoff(opponent, mine)
            assert payoff == pytest.approx(response.value, abs=1e-12)
            if ties == "first":
                assert response.choices[1:].sum() == len(form.seats[seat].starts)


def test_policies_survive_the_way_to_plans_and_to_open_spiel_and_back(form: SequenceForm) -> None:
    policies = [random_policy(form, seat, seed=seat + 7) for seat in (0, 1)]
    table = to_open_spiel(form, policies)
    for seat, (tree, policy) in enumerate(zip(form.seats, policies, strict=True)):
        np.testing.assert_allclose(tree.policy_of(tree.plan_of(policy)), policy, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(from_open_spiel(form, seat, table), policy)


def test_plans_flow_from_each_sequence_into_the_information_sets_below_it(form: SequenceForm) -> None:
    for seat, tree in enumerate(form.seats):
        plan = tree.plan_of(random_policy(form, seat, seed=3))
        sums = np.bincount(tree.owners, plan[1:], minlength=len(tree.starts))
        np.testing.assert_allclose(sums, plan[tree.parents])
        assert all(
            tree.parents[first:last].max() < span[0]
            for (first, last), span in zip(tree.levels, tree.spans, strict=True)
        )


def test_where_a_plan_never_leads_its_policy_is_uniform() -> None:
    tree = build_sequence_form("kuhn_poker").seats[0]
    always_bet = np.ones(tree.sequences)
    always_bet[1:] = tree.actions[1:] == 1
    policy = tree.policy_of(tree.plan_of(always_bet))
    after_a_pass = np.flatnonzero(tree.parents > 0)
    assert [knows for knows in tree.information_sets if knows.endswith("pb")] == [
        tree.information_sets[place] for place in after_a_pass
    ]
    for start in tree.starts[after_a_pass]:
        assert policy[start : start + 2].tolist() == [0.5, 0.5]


def test_a_seat_that_never_decides_has_the_empty_plan_alone() -> None:
    form = build_sequence_form("nim(pile_sizes=1;0)")
    assert [tree.sequences for tree in form.seats] == [2, 1]
    first, second = np.ones(2), np.ones(1)
    assert form.best_response(1, first).choices.tolist() == [True]
    assert form.nash_conv(first, second) == 0.0
    table = to_open_spiel(form, [first, second])
    assert from_open_spiel(form, 1, table).tolist() == [1.0]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("kuhn_poker(players=3)", "it has 3 players; two are needed"),
        ("matrix_pd", "a zero-sum game is needed"),
        ("tiny_hanabi", "a zero-sum game is needed"),
        ("backgammon", "no information state string"),
        ("dark_hex_ir(board_size=2)", "seat 1 forgets: .* is reached by other decisions of its own, too"),
        ("no_such_game", "OpenSpiel has no game 'no_such_game'"),
    ],
)
def test_games_that_have_no_such_form_are_refused_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        build_sequence_form(name)


def test_a_game_that_is_too_large_is_refused_after_so_many_histories_and_tells_how_far_it_is() -> None:
    told: list[int] = []
    with pytest.raises(ConfigError, match=r"tic_tac_toe: .* more than 25,000 histories"):
        build_sequence_form("tic_tac_toe", most_histories=25_000, report=told.append)
    assert told == [10_000, 20_000]


def test_a_policy_of_another_game_is_refused() -> None:
    kuhn, leduc = build_sequence_form("kuhn_poker"), build_sequence_form("leduc_poker")
    table = to_open_spiel(kuhn, [random_policy(kuhn, seat, seed=1) for seat in (0, 1)])
    with pytest.raises(ConfigError, match="leduc_poker: the policy does not know what to do at"):
        from_open_spiel(leduc, 0, table)
