"""OpenSpiel's games in words."""

from __future__ import annotations

import numpy as np
import pytest

from ludus.errors import ConfigError
from ludus.explore.players.fixed import make_player
from ludus.games import InvalidMove, make_text_game
from ludus.games.text_open_spiel import OpenSpielTextGame


def test_tic_tac_toe_is_told_in_few_words() -> None:
    position = OpenSpielTextGame("tic_tac_toe").start(0)
    assert position.news(0) == "Tic-tac-toe. You are x.\n012\n345\n678"
    assert position.moves(0) == list("012345678")
    position.act(0, "4")
    assert position.news(1) == "Tic-tac-toe. You are o.\n012\n3x5\n678"
    position.act(1, "0")
    assert position.news(0) == "o12\n3x5\n678"


def test_moves_are_named_without_the_mover_in_any_game() -> None:
    assert OpenSpielTextGame("mnk(m=3,n=3,k=3)").start(0).moves(0)[:4] == ["0,0", "0,1", "0,2", "1,0"]
    assert OpenSpielTextGame("connect_four").start(0).moves(0) == list("0123456")
    assert OpenSpielTextGame("goofspiel").start(0).moves(0)[:2] == ["Bid: 1", "Bid: 2"]


@pytest.mark.parametrize("move", ["2", " 2 ", "x(0,2)", "X(0, 2)"])
def test_move_may_be_written_as_open_spiel_does_and_with_other_spaces(move: str) -> None:
    position = OpenSpielTextGame("tic_tac_toe").start(0)
    position.act(0, move)
    assert position.position.text().startswith("..x")


@pytest.mark.parametrize("move", ["9", "o(0,0)", "", "-1", "0 1"])
def test_illegal_move_is_refused_with_the_legal_ones_and_changes_nothing(move: str) -> None:
    position = OpenSpielTextGame("tic_tac_toe").start(0)
    with pytest.raises(InvalidMove, match=r"not a legal move; legal: 0 1 2 3"):
        position.act(0, move)
    assert position.acting() == 0
    assert position.text() == "...\n...\n..."


def test_words_and_numbers_mean_the_same_moves() -> None:
    for name in ("connect_four", "leduc_poker", "backgammon", "goofspiel", "chess"):
        position = OpenSpielTextGame(name).start(3)
        for _ in range(20):
            seat = position.acting()
            if seat is None:
                break
            numbers = position.position.legal(seat)
            assert [position.number(seat, word) for word in position.moves(seat)] == numbers
            assert position.words(seat, numbers[-1]) == position.moves(seat)[-1]
            position.act(seat, position.moves(seat)[-1])


def test_fixed_players_of_the_board_game_can_sit_at_it() -> None:
    game = OpenSpielTextGame("tic_tac_toe")
    players = (make_player("mcts-25", game.game), make_player("random", game.game))
    position, rng = game.start(0), np.random.default_rng(0)
    while (seat := position.acting()) is not None:
        position.act(seat, position.words(seat, players[seat].choose(position.position, seat, rng)))
    assert position.returns() in ([1.0, -1.0], [-1.0, 1.0], [0.0, 0.0])


def test_seats_that_act_together_do_not_see_each_others_choice() -> None:
    game = OpenSpielTextGame("goofspiel(num_cards=4)")
    told = set()
    for move in ("Bid: 1", "Bid: 4"):
        position = game.start(0)
        position.act(0, move)
        assert position.acting() == 1
        told.add((position.news(1), tuple(position.moves(1)), position.text()))
    assert len(told) == 1


def test_choices_of_seats_that_act_together_are_played_together() -> None:
    position = OpenSpielTextGame("matrix_pd").start(0)
    position.act(0, "cooperate")
    position.act(1, "defect")
    assert position.acting() is None
    assert position.returns() == [0.0, 10.0]


def test_matrix_game_tells_its_payoffs() -> None:
    assert "10,0 1,1" in OpenSpielTextGame("matrix_pd").start(0).news(0)


def test_hidden_cards_are_not_told() -> None:
    for seed in range(10):
        position = OpenSpielTextGame("kuhn_poker").start(seed)
        cards = position.text().split()
        assert position.news(0).splitlines()[1:] == [cards[0]]


def test_spec_is_that_of_a_game_of_words() -> None:
    spec = make_text_game("open_spiel:goofspiel(num_cards=4,players=3)").spec
    assert (spec.key, spec.players) == ("open_spiel:goofspiel(num_cards=4,players=3)", 3)
    assert (spec.actions, spec.observation_shape, spec.is_simultaneous) == (0, (), False)
    assert spec.max_length == 4 * 3


def test_unknown_name_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="did you mean open_spiel:tic_tac_toe"):
        make_text_game("open_spiel:tictactoe")
