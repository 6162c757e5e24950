"""Chess in C++: a board, lc0's encodings, a loader of training chunks, and a search."""

from ludus_chess._native import (
    START_FEN,
    Board,
    PgnGame,
    PgnReader,
    RootStats,
    Search,
    check_records,
    encode_game,
    perft,
    policy_moves,
    read_pgn,
    upgrade_records,
)

__all__ = [
    "START_FEN",
    "Board",
    "PgnGame",
    "PgnReader",
    "RootStats",
    "Search",
    "check_records",
    "encode_game",
    "perft",
    "policy_moves",
    "read_pgn",
    "upgrade_records",
]
