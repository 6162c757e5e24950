"""The public conformance check over the games of all backends."""

from __future__ import annotations

import pytest

from ludus.games import available_games, make_game
from ludus.testing import check_game

QUICK = [
    "open_spiel:2048",
    "open_spiel:backgammon",
    "open_spiel:battleship",
    "open_spiel:blackjack",
    "open_spiel:breakthrough",
    "open_spiel:catch",
    "open_spiel:coin_game",
    "open_spiel:connect_four",
    "open_spiel:coop_box_pushing",
    "open_spiel:coordinated_mp",
    "open_spiel:cribbage",
    "open_spiel:dark_hex",
    "open_spiel:euchre",
    "open_spiel:gin_rummy",
    "open_spiel:go(board_size=5)",
    "open_spiel:goofspiel(imp_info=True,num_cards=4,players=3)",
    "open_spiel:hanabi",
    "open_spiel:hearts",
    "open_spiel:kuhn_poker",
    "open_spiel:leduc_poker(players=3)",
    "open_spiel:liars_dice",
    "open_spiel:matching_pennies_3p",
    "open_spiel:matrix_pd",
    "open_spiel:misere(game=kuhn_poker())",
    "open_spiel:negotiation",
    "open_spiel:nim",
    "open_spiel:oshi_zumo",
    "open_spiel:pathfinding(horizon=40)",
    "open_spiel:python_tic_tac_toe",
    "open_spiel:repeated_game(num_repetitions=5,stage_game=matrix_pd())",
    "open_spiel:repeated_leduc_poker",
    "open_spiel:spades",
    "open_spiel:stones_and_gems",
    "open_spiel:tarok",
    "open_spiel:tic_tac_toe",
    "open_spiel:tiny_bridge_4p",
    "open_spiel:turn_based_simultaneous_game(game=matrix_rps())",
    "open_spiel:universal_poker",
    "pettingzoo:classic.connect_four_v3",
    "pettingzoo:classic.rps_v2",
    "pettingzoo:classic.rps_v2(api=aec)",
    "pettingzoo:classic.tictactoe_v3",
    "pettingzoo:mpe.simple_crypto_v3(max_cycles=6)",
    "pettingzoo:mpe.simple_spread_v3(N=2,max_cycles=6)",
    "pettingzoo:mpe.simple_spread_v3(N=2,max_cycles=4,api=aec)",
    "pettingzoo:mpe.simple_speaker_listener_v4(max_cycles=6)",
    "pettingzoo:mpe.simple_tag_v3(max_cycles=6)",
    "pgx:connect_four",
    "pgx:kuhn_poker",
    "pgx:leduc_holdem",
    "pgx:tic_tac_toe",
]
SLOW_TO_DEAL = {"open_spiel:bridge_uncontested_bidding"}


@pytest.mark.parametrize("key", QUICK)
def test_game_keeps_its_promises(key: str) -> None:
    check_game(make_game(key), games=3)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("key", [listing.key for listing in available_games() if listing.ok])
def test_every_game_that_is_listed_keeps_its_promises(key: str) -> None:
    check_game(make_game(key), games=1 if key in SLOW_TO_DEAL else 4, seed=100)
