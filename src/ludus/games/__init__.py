"""What is played. Light to import: OpenSpiel, pgx, TextArena and JAX are loaded when a game of theirs is made."""

from ludus.games.listing import GameListing, available_games, available_text_games
from ludus.games.protocol import (
    DeviceGame,
    Game,
    GameSpec,
    InvalidMove,
    Position,
    SearchablePosition,
    TextGame,
    TextPosition,
)
from ludus.games.registry import (
    find_device_game,
    make_game,
    make_text_game,
    register_backend,
    register_game,
    register_text_game,
)

__all__ = [
    "DeviceGame",
    "Game",
    "GameListing",
    "GameSpec",
    "InvalidMove",
    "Position",
    "SearchablePosition",
    "TextGame",
    "TextPosition",
    "available_games",
    "available_text_games",
    "find_device_game",
    "make_game",
    "make_text_game",
    "register_backend",
    "register_game",
    "register_text_game",
]
