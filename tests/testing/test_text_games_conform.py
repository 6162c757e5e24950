"""The public conformance check over the text games of both backends."""

from __future__ import annotations

from itertools import product

import pytest

from ludus.games import available_games, available_text_games, make_text_game
from ludus.games.text_arena_catalog import known_ids, refusal
from ludus.testing import check_text_game

OPEN_SPIEL = [
    "2048",
    "backgammon",
    "bargaining",
    "battleship",
    "blotto",
    "breakthrough",
    "chess",
    "coin_game",
    "connect_four",
    "dark_hex",
    "dou_dizhu",
    "gin_rummy",
    "go(board_size=5)",
    "goofspiel(imp_info=True,num_cards=4,players=3)",
    "hanabi",
    "hearts",
    "kuhn_poker(players=3)",
    "leduc_poker",
    "liars_dice",
    "matching_pennies_3p",
    "matrix_pd",
    "misere(game=kuhn_poker())",
    "negotiation",
    "nim",
    "oshi_zumo",
    "phantom_ttt",
    "python_tic_tac_toe",
    "repeated_game(num_repetitions=5,stage_game=matrix_pd())",
    "sheriff",
    "skat",
    "tic_tac_toe",
    "universal_poker",
    "yacht",
]
ONE_ID_OF_EACH_GAME = {game: id for id, game in reversed(known_ids().items()) if not refusal(game)}
TRIPLES = list(product(range(1, 10), repeat=3))
GUESSES = {
    "ColonelBlotto": ["[A7 B7 C6]", "[A:20]", "[B20]", "[A1 B1 C1]"],
    "Countdown": ["[0 1 +]", "[0 1 *]", "[1 2 -]"],
    "Crosswords": [f"[{row} {column} {letter}]" for row, column, letter in product(range(3), range(5), "aers")],
    "Cryptarithm": ["[S 9]", "[E 5]", "[M 1]", "[O 0]", "[Q 1]"],
    "Golf": ["[draw]", "[take]", "[discard]", "[swap 0 0]", "[swap 0 1]", "[peek 0 0]", "[knock]"],
    "IteratedUltimatumGame": ["[Offer: $5]", "[Offer: $3]", "[Accept]", "[Reject]"],
    "IteratedTwoThirdsAverage": ["[33]", "[22.5]", "[0]", "[101]"],
    "LiarsDice": ["[Bid: 1, 2]", "[Bid: 3, 4]", "[Bid: 5, 6]", "[Call]"],
    "LogicPuzzle": ["[park Alice X]"],
    "Mastermind": ["[1 2 3 4]", "[4 3 2 1]", "[2 4 1 3]", "[1 1 1 1]"],
    "MemoryGame": [f"[{a} {b} {c} {d}]" for a, b, c, d in product(range(4), repeat=4)],
    "NewRecruit": ["[Propose] A B C D E A B C", "[Accept]", "[Reject]"],
    "Poker": ["[Check]", "[Call]", "[Fold]", "[Bet 20]", "[Raise 40]"],
    "PublicGoodsGame": ["{let us share}", "[5]", "[20]"],
    "RushHour": ["[X+]", "[X-]", "[A+]", "[A-]", "[B+]", "[B-]", "[C+]", "[C-]"],
    "Santorini": [f"[{w}{s}{d}{b}]" for w, s, d, b in product(("N1", "W1"), ("C2", "B3"), ("C3", "B2"), ("D3", "B1"))],
    "Set": [f"[{a}, {b}, {c}]" for a, b, c in TRIPLES],
    "Slitherlink": [f"[{way} {row} {column}]" for way, row, column in product("hv", range(4), range(4))],
    "Sokoban": ["[up]", "[down]", "[left]", "[right]"],
    "SpiteAndMalice": ["[draw]", "[play A♠ 0]"],
    "Sudoku": [f"[{a} {b} {c}]" for a, b, c in TRIPLES],
    "Tak": ["[place () {(0,0): [F]}]", "[place () {(1,2): [F]}]", "[place () {(2,1): [W]}]"],
    "TwoDollar": ["[Propose] $1.00", "[Propose] $0.75", "[Accept]", "[Reject]"],
}
"""Moves to try in games that cannot list them."""


@pytest.mark.parametrize("name", OPEN_SPIEL)
def test_game_of_open_spiel_keeps_its_promises(name: str) -> None:
    check_text_game(make_text_game(f"open_spiel:{name}"), games=2, max_plies=60)


@pytest.mark.parametrize("game", sorted(ONE_ID_OF_EACH_GAME))
def test_game_of_text_arena_keeps_its_promises(game: str) -> None:
    options = {"guesses": GUESSES[game]} if game in GUESSES else {}
    check_text_game(make_text_game(f"textarena:{ONE_ID_OF_EACH_GAME[game]}"), games=1, max_plies=24, **options)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "key", [game.key for game in (*available_games(), *available_text_games()) if game.in_words and game.ok]
)
def test_every_text_game_that_is_listed_keeps_its_promises(key: str) -> None:
    check_text_game(make_text_game(key), games=2, seed=100)
