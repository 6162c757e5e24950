"""pgx games and their OpenSpiel twins in lock-step: mover, legal moves, end and returns are the same."""

from __future__ import annotations

import numpy as np
import pytest

from ludus.games.pgx import PgxGame, PgxPosition
from ludus.games.twins import TWINS

PASS = {"go_9x9": 81, "go_19x19": 361}
GAMES = {"go_9x9": 3, "hex": 4, "othello": 8}
STUCK_OTHELLO = [
    *(37, 45, 19, 29, 54, 26, 17, 34, 46, 20, 33, 43, 52, 38, 39, 11),
    *(2, 44, 18, 60, 53, 12, 59, 41, 4, 25, 32, 58, 48, 30, 31),
]
"""White has three discs left, and neither side can move."""
QUICK = [name for name in TWINS if name != "go_19x19"]


def choose(name: str, legal: list[int], rng: np.random.Generator) -> int:
    # Two passes end a game of Go: pass seldom, or games would be short.
    moves = [action for action in legal if action != PASS.get(name)]
    return int(rng.choice(moves if moves and rng.random() < 0.98 else legal))


def play_in_lock_step(name: str, seed: int) -> PgxPosition:
    game, rng = PgxGame(name), np.random.default_rng(seed)
    position, twin = game.start(seed), TWINS[name]
    while position.acting():
        (seat,) = position.acting()
        state = position.open_spiel_state()
        if state.is_terminal():
            assert twin.has_closing_passes
            assert position.legal(seat) == [64]
        else:
            assert state.current_player() == seat
            assert sorted(map(twin.to_open_spiel, position.legal(seat))) == state.legal_actions()
            assert [twin.from_open_spiel(twin.to_open_spiel(a)) for a in position.legal(seat)] == position.legal(seat)
        position.act({seat: choose(name, position.legal(seat), rng)})
    return position


def check_games(name: str, count: int) -> None:
    for seed in range(count):
        position = play_in_lock_step(name, seed)
        state = position.open_spiel_state()
        assert state.is_terminal()
        is_repetition = name in PASS and state.returns() == [0.0, 0.0]
        assert is_repetition or position.returns() == state.returns()


@pytest.mark.parametrize("name", QUICK)
def test_twins_agree_along_random_games(name: str) -> None:
    check_games(name, GAMES.get(name, 40))


@pytest.mark.slow
@pytest.mark.parametrize("name", TWINS)
def test_twins_agree_along_many_random_games(name: str) -> None:
    check_games(name, 10 if name == "go_19x19" else 300)


def test_othello_ends_with_passes_that_its_twin_does_not_know() -> None:
    position = PgxGame("othello").start(0)
    for ply, action in enumerate(STUCK_OTHELLO):
        position.act({ply % 2: action})
    (seat,) = position.acting()
    assert position.legal(seat) == [64]
    assert position.open_spiel_state().is_terminal()
    assert position.action_text(seat, 64) == "64"
    returns = position.open_spiel_state().returns()
    while position.acting():
        position.act({position.acting()[0]: 64})
    assert position.returns() == returns != [0.0, 0.0]


def test_poker_cards_are_dealt_to_the_seats_that_hold_them() -> None:
    game = PgxGame("leduc_holdem")
    for seed in range(20):
        position = game.start(seed)
        ranks = [card // 2 for card in position.open_spiel_state().history()]
        seen = np.zeros((2, 34), np.float32)
        for seat in (0, 1):
            position.observe(seat, seen[seat])
        assert [int(row[:3].argmax()) for row in seen] == ranks


def test_text_of_a_twin_hides_the_other_seats_card() -> None:
    game = PgxGame("kuhn_poker")
    shown: dict[int, set[str]] = {}
    for seed in range(30):
        position = game.start(seed)
        shown.setdefault(position.open_spiel_state().history()[0], set()).add(position.text(0))
    assert [len(texts) for texts in shown.values()] == [1, 1, 1]
