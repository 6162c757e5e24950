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
from ludus_chess.loader import ChunkLoader, LoaderStopped, Tensors
from ludus_chess.loader_config import Focus, LoaderConfig
from ludus_chess.loader_stats import LoaderStats, Refusal, StageStats

__all__ = [
    "START_FEN",
    "Board",
    "ChunkLoader",
    "Focus",
    "LoaderConfig",
    "LoaderStats",
    "LoaderStopped",
    "PgnGame",
    "PgnReader",
    "Refusal",
    "RootStats",
    "Search",
    "StageStats",
    "Tensors",
    "check_records",
    "encode_game",
    "perft",
    "policy_moves",
    "read_pgn",
    "upgrade_records",
]
