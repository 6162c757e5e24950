"""What is played. Light to import: OpenSpiel, pgx and JAX are loaded when a game of theirs is made."""

from ludus.games.listing import GameListing, available_games
from ludus.games.protocol import Game, GameSpec, Position
from ludus.games.registry import make_game, register_game
from ludus.games.searchable import SearchablePosition, open_spiel_name

__all__ = [
    "Game",
    "GameListing",
    "GameSpec",
    "Position",
    "SearchablePosition",
    "available_games",
    "make_game",
    "open_spiel_name",
    "register_game",
]
