"""OpenSpiel's games through our protocol, in lock-step with pyspiel itself."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyspiel
import pytest

from ludus.errors import ConfigError, EnvError
from ludus.games import make_game
from ludus.games.open_spiel import OpenSpielGame, OpenSpielPosition

GAMES_WITHOUT_CHANCE = [
    "tic_tac_toe",
    "connect_four",
    "breakthrough",
    "matrix_rps",
    "oshi_zumo",
    "sheriff",
    "gomoku",
    "dark_hex",
]
RECALLING = ["sheriff", "dark_hex"]
"""What the seats see of these is their information state: all that they have seen and done."""
NO_GAMES = {
    "conect_four": "did you mean open_spiel:connect_four",
    "": "expected a name",
    "leduc_poker(players=3": "expected a name",
    "leduc_poker(plyers=3)": "Unknown parameter 'plyers'. Available parameters are: .*players",
    "leduc_poker(players=x)": "Expected type: kInt",
    "leduc_poker(players=30)": "max_num_players = 10",
    "misere(game=nope())": "Unknown game 'nope'",
    "mfg_garnet": "mean-field",
    "crossword": "actions are structures",
    "misere": r"needs parameters \(game\)",
    "misere(game=tarok())": "could not be repeated",
    "goofspiel(num_cards=0)": "nothing to play",
    "hex(board_size=-1)": "impossible observation",
    "goofspiel(num_cards=100000)": "impossible observation",
    "x" * 5000: "expected a name",
    "chat_game": "language model",
    "python_nothing": "no game 'python_nothing'",
}


def play_out(position: OpenSpielPosition, rng: np.random.Generator) -> list[dict[int, int]]:
    moves = []
    while position.acting():
        moves.append({seat: int(rng.choice(position.legal(seat))) for seat in position.acting()})
        position.act(moves[-1])
    return moves


def seen(game: OpenSpielGame, position: OpenSpielPosition, seat: int) -> np.ndarray:
    out = np.full(game.spec.observation_shape, np.nan, np.float32)
    position.observe(seat, out)
    return out


@pytest.mark.parametrize("name", GAMES_WITHOUT_CHANCE)
def test_position_says_what_the_pyspiel_state_says(name: str) -> None:
    game, rng = OpenSpielGame(name), np.random.default_rng(1)
    for seed in range(3):
        state, position = pyspiel.load_game(name).new_initial_state(), game.start(seed)
        while position.acting():
            moves = {}
            for seat in position.acting():
                assert position.legal(seat) == state.legal_actions(seat)
                tensor = state.information_state_tensor if name in RECALLING else state.observation_tensor
                assert np.array_equal(seen(game, position, seat).ravel(), np.array(tensor(seat), np.float32))
                moves[seat] = int(rng.choice(position.legal(seat)))
                assert position.action_text(seat, moves[seat]) == state.action_to_string(seat, moves[seat])
            assert position.text() == str(state)
            position.act(moves)
            if len(moves) == 1:
                state.apply_action(*moves.values())
            else:
                state.apply_actions([moves[seat] for seat in range(game.spec.players)])
        assert state.is_terminal()
        assert position.returns() == state.returns()


@pytest.mark.parametrize("name", ["backgammon", "leduc_poker(players=3)", "hearts", "pig"])
def test_history_of_a_game_with_chance_is_a_history_of_pyspiel(name: str) -> None:
    position = OpenSpielGame(name).start(7)
    play_out(position, np.random.default_rng(2))
    state = pyspiel.load_game(name).new_initial_state()
    for step in position.open_spiel_state().full_history():
        possible = dict(state.chance_outcomes()) if state.is_chance_node() else state.legal_actions()
        assert step.action in possible
        state.apply_action(step.action)
    assert state.is_terminal()
    assert position.returns() == state.returns()


def test_chance_follows_its_probabilities_and_the_seed() -> None:
    game = OpenSpielGame("kuhn_poker")
    deals = [tuple(game.start(seed).open_spiel_state().history()) for seed in range(6000)]
    assert deals == [tuple(game.start(seed).open_spiel_state().history()) for seed in range(6000)]
    counts = Counter(deals)
    assert len(counts) == 6
    assert sum((count - 1000) ** 2 / 1000 for count in counts.values()) < 20.5  # chi-square, 5 degrees, p = 0.001


def test_unlikely_chance_is_drawn_seldom() -> None:
    game = OpenSpielGame("2048")
    drawn = [game.start(seed).open_spiel_state().history()[:2] for seed in range(1000)]
    fours = np.mean([action % 2 for pair in drawn for action in pair])
    assert 0.07 < fours < 0.13  # a 4 appears one time in ten


@pytest.mark.parametrize("name", ["tarok", "negotiation", "stones_and_gems"])
def test_game_that_samples_inside_itself_obeys_the_seed(name: str) -> None:
    game = OpenSpielGame(name)

    def record(seed: int) -> tuple[list[dict[int, int]], str, list[float]]:
        position = game.start(seed)
        moves = play_out(position, np.random.default_rng(0))
        return moves, position.text(), position.returns()

    first = record(11)
    assert record(12) is not None
    assert record(11) == first
    assert name == "stones_and_gems" or record(12) != first


@pytest.mark.parametrize(("name", "message"), NO_GAMES.items())
def test_bad_name_is_one_clear_error_and_nothing_on_stderr(
    name: str, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match=message):
        OpenSpielGame(name)
    assert capfd.readouterr().err == ""


def test_parameters_are_part_of_the_key() -> None:
    game = make_game("open_spiel:leduc_poker(players=3)")
    assert game.spec.key == "open_spiel:leduc_poker(players=3)"
    assert (game.spec.players, game.spec.actions) == (3, 3)


def test_games_written_in_python_are_found() -> None:
    game = OpenSpielGame("python_tic_tac_toe")
    position = game.start(0)
    play_out(position, np.random.default_rng(0))
    assert sum(position.returns()) == 0


@pytest.mark.parametrize(
    ("name", "facts"),
    {
        "connect_four": {"is_zero_sum": True, "has_perfect_information": True, "has_chance": False, "max_length": 42},
        "kuhn_poker": {"has_chance": True, "has_perfect_information": False, "min_return": -2.0, "max_return": 2.0},
        "blackjack": {"players": 1, "is_zero_sum": False},
        "matrix_pd": {"is_simultaneous": True, "is_zero_sum": False},
        "hanabi": {"teams": (0, 0), "rewards_every_move": True, "is_zero_sum": False},
        "bridge": {"teams": (0, 1, 0, 1), "players": 4},
        "morpion_solitaire": {"observation_shape": (), "players": 1},
        "battleship": {"observation_shape": (2615,)},
    }.items(),
)
def test_spec_says_what_the_game_is(name: str, facts: dict[str, object]) -> None:
    spec = OpenSpielGame(name).spec
    assert {fact: getattr(spec, fact) for fact in facts} == facts


def test_simultaneous_move_needs_every_seat() -> None:
    position = OpenSpielGame("matrix_rps").start(0)
    assert position.acting() == (0, 1)
    with pytest.raises(EnvError, match=r"seats \(0, 1\) act now"):
        position.act({0: 0})
    position.act({0: 0, 1: 2})
    assert (position.acting(), position.returns()) == ((), [1.0, -1.0])


def test_seat_without_a_choice_does_not_act_in_a_simultaneous_game() -> None:
    game = OpenSpielGame("goofspiel(imp_info=True,num_cards=3,players=3)")
    position = game.start(0)
    while position.acting():
        assert all(position.legal(seat) for seat in position.acting())
        position.act({seat: position.legal(seat)[0] for seat in position.acting()})


@pytest.mark.parametrize("bad", [{0: 9}, {0: -1}, {}, {1: 0}, {0: 0, 1: 1}, {0: None}, {0: "3"}, {0: 1.0}])
def test_refused_move_changes_nothing(bad: dict[int, int], capfd: pytest.CaptureFixture[str]) -> None:
    position = OpenSpielGame("tic_tac_toe").start(0)
    before = position.text()
    with pytest.raises(EnvError):
        position.act(bad)
    assert (position.text(), position.acting()) == (before, (0,))
    assert capfd.readouterr().err == ""


def test_numpy_action_is_an_action() -> None:
    position = OpenSpielGame("tic_tac_toe").start(0)
    position.act({0: np.int32(4)})
    assert position.text() == "...\n.x.\n..."


def test_finished_game_refuses_moves() -> None:
    position = OpenSpielGame("tic_tac_toe").start(0)
    play_out(position, np.random.default_rng(0))
    with pytest.raises(EnvError, match="over"):
        position.act({0: 0})
    with pytest.raises(EnvError, match="not to act"):
        position.legal(0)


def test_seat_is_not_shown_what_is_hidden_from_it() -> None:
    game = OpenSpielGame("kuhn_poker")
    shown: dict[int, set[str]] = {}
    for seed in range(60):
        position = game.start(seed)
        mine = position.open_spiel_state().history()[0]
        shown.setdefault(mine, set()).add(position.text(0))
    assert {mine: len(texts) for mine, texts in shown.items()} == {0: 1, 1: 1, 2: 1}


def test_state_given_to_a_bot_is_a_copy() -> None:
    position = OpenSpielGame("tic_tac_toe").start(0)
    position.open_spiel_state().apply_action(0)
    assert position.text() == "...\n...\n..."


def test_two_positions_of_one_game_do_not_share_what_they_see() -> None:
    game = OpenSpielGame("tic_tac_toe")
    first, second = game.start(0), game.start(0)
    second.act({0: 4})
    empty = seen(game, first, 0)
    seen(game, second, 0)
    assert np.array_equal(seen(game, first, 0), empty)


def test_text_only_game_is_played_without_a_tensor() -> None:
    game = OpenSpielGame("cribbage")
    position = game.start(0)
    position.observe(position.acting()[0], np.zeros((), np.float32))
    assert position.text(0)
