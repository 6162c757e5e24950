"""Legal moves of TextArena's games: what is listed is accepted, other moves of the same form are not."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from ludus.games import InvalidMove, TextGame, make_text_game
from ludus.games.text_arena_catalog import known_ids
from ludus.games.text_arena_moves import LEGAL_MOVES

IDS = {game: id for id, game in reversed(known_ids().items())}
PLIES = 8
SQUARES = [f"{file}{rank}" for file, rank in product("abcdefgh", range(1, 9))]
OTHER_MOVES = {
    "Alquerque": [f"[{start} {end}]" for start, end in product(range(25), repeat=2)],
    "Bandit": ["[mauve]"],
    "Battleship": [f"[{row}{column}]" for row, column in product("ABCDEF", range(6))],
    "Breakthrough": [f"[{start}{end}]" for start, end in product(SQUARES, repeat=2)],
    "Briscola": [f"[play {number}]" for number in range(6)],
    "Chopsticks": [f"[attack {a} {b}]" for a, b in product((0, 1), repeat=2)]
    + [f"[split {a} {b}]" for a, b in product(range(9), repeat=2)],
    "ConnectFour": [f"[col {column}]" for column in range(9)],
    "Crusade": [f"[{start} {end}]" for start, end in product(SQUARES, repeat=2)],
    "FifteenPuzzle": ["[up]", "[down]", "[left]", "[right]"],
    "FrozenLake": ["[up]", "[down]", "[left]", "[right]"],
    "Game2048": ["[up]", "[down]", "[left]", "[right]"],
    "GameOfPureStrategy": [f"[{face}]" for face in ("A", *range(2, 11), "J", "Q", "K")],
    "GermanWhist": [f"[play {number}]" for number in range(15)],
    "GuessTheNumber": [f"[{number}]" for number in range(0, 60)],
    "HighSociety": [f"[{number}]" for number in range(0, 15)],
    "IndianPoker": ["[check]", "[call]", "[fold]"]
    + [f"[{word} {number}]" for word, number in product(("bet", "raise"), range(0, 120, 7))],
    "KuhnPoker": ["[check]", "[bet]", "[call]", "[fold]"],
    "LightsOut": [f"[{row} {column}]" for row, column in product(range(6), repeat=2)],
    "LinesOfAction": [f"[{start}{end}]" for start, end in product(SQUARES, repeat=2)],
    "Minesweeper": [f"[{row} {column}]" for row, column in product(range(10), repeat=2)],
    "Nim": [f"[{pile} {taken}]" for pile, taken in product(range(5), range(9))],
    "Othello": [f"[{row}, {column}]" for row, column in product(range(9), repeat=2)],
    "PegJump": [f"[{start} {end}]" for start, end in product(range(16), repeat=2)],
    "QuantumTicTacToe": [f"[{a},{b}]" for a, b in product(range(10), repeat=2)],
    "SimpleTak": [f"[{cell}]" for cell in range(20)],
    "ThreeCardMonte": [f"[{cup}]" for cup in range(9)],
    "ThreePlayerGOPS": [f"[{face}]" for face in ("A", *range(2, 11), "J", "Q", "K")],
    "ThreePlayerTicTacToe": [f"[{cell}]" for cell in range(30)],
    "TicTacToe": [f"[{cell}]" for cell in range(12)],
    "TowerOfHanoi": [f"[{source} {target}]" for source, target in product("ABC", repeat=2) if source != target],
    "UltimateTicTacToe": [f"[{board} {cell}]" for board, cell in product(range(10), repeat=2)],
    "WildTicTacToe": [f"[{mark} {cell}]" for mark, cell in product("XO", range(10))],
}
"""Moves of the same form, legal or not; nothing for games whose moves are always the same."""
SAME_MOVE = {"QuantumTicTacToe": lambda move: f"[{','.join(sorted(move[1:-1].split(',')))}]"}
"""Where two ways of writing are one move."""


def replay(game: TextGame, seed: int, moves: list[str]) -> object:
    position = game.start(seed)
    for move in moves:
        seat = position.acting()
        assert seat is not None
        position.act(seat, move)
    return position


@pytest.mark.parametrize("name", sorted(LEGAL_MOVES))
def test_what_is_listed_is_accepted_and_nothing_else(name: str) -> None:
    game, rng = make_text_game(f"textarena:{IDS[name]}"), Random(name)
    made: list[str] = []
    position = game.start(1)
    while (seat := position.acting()) is not None and len(made) < PLIES:
        listed = position.moves(seat)
        assert listed
        for move in rng.sample(listed, min(len(listed), 12)):
            replay(game, 1, [*made, move])
        same = SAME_MOVE.get(name, lambda move: move)
        others = [move for move in OTHER_MOVES.get(name, []) if same(move) not in {same(each) for each in listed}]
        for move in [*rng.sample(others, min(len(others), 12)), "[]", "nonsense"]:
            if listed != ["[skip]"]:
                with pytest.raises(InvalidMove):
                    position.act(seat, move)
        made.append(rng.choice(listed))
        position.act(seat, made[-1])
    assert made
