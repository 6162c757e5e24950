"""Fixed players: legal, repeatable, as strong as they should be, and refused where they cannot play."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from ludus.errors import ConfigError
from ludus.explore import players
from ludus.explore.players.fixed import Player, make_player, register_player
from ludus.games import Game, Position, make_game

CONNECT_FOUR = "open_spiel:connect_four"
TIC_TAC_TOE = "open_spiel:tic_tac_toe"


def play(game: Game, seats: list[Player], seed: int) -> tuple[list[int], list[float]]:
    position, rng = game.start(seed), np.random.default_rng(seed)
    moves = []
    while position.acting():
        chosen = {seat: seats[seat].choose(position, seat, rng) for seat in position.acting()}
        moves += chosen.values()
        position.act(chosen)
    return moves, list(position.returns())


def score(game: Game, name: str, opponent: str, games: int) -> float:
    """Mean score of the first player, seats alternating, a draw counting half."""
    both = [make_player(name, game), make_player(opponent, game)]
    total = 0.0
    for number in range(games):
        seat = number % 2
        _, returns = play(game, both[::-1] if seat else both, number)
        total += (returns[seat] + 1) / 2
    return total / games


@pytest.mark.parametrize("key", [TIC_TAC_TOE, "pgx:tic_tac_toe"])
@pytest.mark.parametrize("name", ["random", "first", "mcts-10", "minimax-2"])
def test_player_is_legal_and_repeatable(key: str, name: str) -> None:
    game = make_game(key)
    player = make_player(name, game)
    first = [play(game, [player, player], seed) for seed in range(3)]
    assert first == [play(game, [player, player], seed) for seed in range(3)]


def test_players_of_both_backends_make_the_same_moves() -> None:
    games = [make_game(TIC_TAC_TOE), make_game("pgx:tic_tac_toe")]
    for name in ("mcts-20", "minimax-3"):
        records = [play(game, [make_player(name, game)] * 2, 4) for game in games]
        assert records[0] == records[1]


def test_player_leaves_the_position_alone() -> None:
    game = make_game(CONNECT_FOUR)
    for name in ("random", "mcts-30", "minimax-3"):
        position = game.start(0)
        make_player(name, game).choose(position, 0, np.random.default_rng(0))
        assert (position.text(), position.acting()) == (game.start(0).text(), (0,))


def test_random_player_is_uniform() -> None:
    game = make_game(CONNECT_FOUR)
    player, position, rng = make_player("random", game), game.start(0), np.random.default_rng(1)
    counts = Counter(player.choose(position, 0, rng) for _ in range(7000))
    assert sorted(counts) == list(range(7))
    assert sum((count - 1000) ** 2 / 1000 for count in counts.values()) < 22.5  # chi-square, 6 degrees, p = 0.001


def test_first_player_takes_the_lowest_action() -> None:
    assert play(make_game(CONNECT_FOUR), [make_player("first", make_game(CONNECT_FOUR))] * 2, 0)[0][:6] == [0] * 6


def test_stronger_mcts_beats_weaker_and_random() -> None:
    game = make_game(CONNECT_FOUR)
    assert score(game, "mcts-25", "random", 60) > 0.88
    assert score(game, "mcts-60", "mcts-5", 60) > 0.65


@pytest.mark.slow
def test_cpp_mcts_is_as_strong_as_the_python_one(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspiel
    from open_spiel.python.algorithms import mcts

    class PythonMcts:
        def choose(self, position: Position, seat: int, rng: np.random.Generator) -> int:
            return int(bot.step(position.open_spiel_state()))

    game, random = make_game(CONNECT_FOUR), np.random.RandomState(0)
    evaluator = mcts.RandomRolloutEvaluator(1, random)
    bot = mcts.MCTSBot(pyspiel.load_game("connect_four"), 2, 25, evaluator, random_state=random, solve=True)
    monkeypatch.setattr("ludus.explore.players.fixed.PLAYERS.added", {})
    register_player("python_mcts", lambda game: PythonMcts())
    # 600 games: a standard error of 0.02.
    assert 0.44 < score(game, "mcts-25", "python_mcts", 600) < 0.56


def test_mcts_takes_a_win_and_stops_a_loss() -> None:
    game = make_game(CONNECT_FOUR)
    player = make_player("mcts-200", game)
    for moves, best in (((0, 1, 0, 1, 0, 1), 0), ((0, 1, 0, 1, 6, 1), 1)):
        position = game.start(0)
        for ply, action in enumerate(moves):
            position.act({ply % 2: action})
        assert player.choose(position, 0, np.random.default_rng(0)) == best


def test_mcts_plays_games_with_open_chance_and_alone() -> None:
    for key in ("open_spiel:pig", "open_spiel:catch"):
        game = make_game(key)
        play(game, [make_player("mcts-5", game)] * game.spec.players, 0)


def test_deep_minimax_never_loses_tic_tac_toe() -> None:
    game = make_game(TIC_TAC_TOE)
    best, other = make_player("minimax-9", game), make_player("random", game)
    for seed in range(2):
        assert play(game, [best, other], seed)[1][0] >= 0
        assert play(game, [other, best], seed)[1][1] >= 0


def test_minimax_sees_a_win_within_its_depth() -> None:
    game = make_game(CONNECT_FOUR)
    position = game.start(0)
    for ply, action in enumerate((3, 3, 4, 4)):
        position.act({ply % 2: action})
    # An open three wins whatever the answer; one ply is too short to see it.
    far = {make_player("minimax-3", game).choose(position, 0, np.random.default_rng(seed)) for seed in range(4)}
    near = {make_player("minimax-1", game).choose(position, 0, np.random.default_rng(seed)) for seed in range(12)}
    assert far <= {2, 5}
    assert len(near) > 2


def test_minimax_games_are_not_all_the_same() -> None:
    game = make_game(CONNECT_FOUR)
    player = make_player("minimax-1", game)
    assert len({tuple(play(game, [player, player], seed)[0]) for seed in range(5)}) > 3


@pytest.mark.parametrize(
    ("name", "key", "message"),
    [
        ("mcts-25", "open_spiel:kuhn_poker", "hidden information"),
        ("mcts-25", "open_spiel:matrix_rps", "same time"),
        ("mcts-25", "open_spiel:2048", "before the end"),
        ("mcts-25", "pgx:animal_shogi", "OpenSpiel has no equal game"),
        ("minimax-3", "open_spiel:backgammon", "chance"),
        ("minimax-3", "open_spiel:catch", "zero-sum game for two"),
        ("minimax-3", "open_spiel:leduc_poker", "hidden information; it has chance"),
        ("mcts", TIC_TAC_TOE, "simulations per move, as in mcts-25"),
        ("mcts-9999999", TIC_TAC_TOE, "1 to 1000000"),
        ("mcts-0", TIC_TAC_TOE, "expected a name such as"),
        ("random-3", TIC_TAC_TOE, "takes no number"),
        ("mtcs-25", TIC_TAC_TOE, "did you mean mcts"),
        ("Random", TIC_TAC_TOE, "expected a name such as"),
        ("", TIC_TAC_TOE, "expected a name such as"),
    ],
)
def test_player_that_cannot_play_is_refused_with_the_reason(name: str, key: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_player(name, make_game(key))


def test_registered_player_is_made_for_the_game(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ludus.explore.players.fixed.PLAYERS.added", {})

    class Last:
        def __init__(self, game: Game) -> None:
            self.action = game.spec.actions - 1

        def choose(self, position: Position, seat: int, rng: np.random.Generator) -> int:
            return self.action

    register_player("last", Last)
    register_player("last-2", Last)
    game = make_game(TIC_TAC_TOE)
    for name in ("last", "last-2"):
        assert make_player(name, game).choose(game.start(0), 0, np.random.default_rng(0)) == 8
    with pytest.raises(ConfigError, match="did you mean last"):
        make_player("last-3", game)


@pytest.mark.parametrize("name", ["random", "mcts-7", "mine-x", "Mine", "", "a b"])
def test_name_of_a_registered_player_is_new_and_plain(name: str) -> None:
    with pytest.raises(ConfigError, match="expected a new name"):
        register_player(name, lambda game: players.RandomPlayer())
