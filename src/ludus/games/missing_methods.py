"""Which methods of the protocol a user's game, or its positions, lack: found before a run begins, by name."""

from __future__ import annotations

from ludus.errors import ConfigError
from ludus.games.protocol import Game, GameSpec, Position, TextGame, TextPosition


def missing_methods(thing: object, protocol: type) -> list[str]:
    """Public names of a protocol that a thing does not have."""
    return [name for name in vars(protocol) if not name.startswith("_") and not hasattr(thing, name)]


def refuse_incomplete_game(game: Game | TextGame, *, in_words: bool = False) -> None:
    """Raise ConfigError that names what a game or its first position lacks. A game that cannot start is let through:
    that costs episodes, which are counted."""
    key = game.spec.key
    try:
        position: object = game.start(0)
    except Exception:  # a user's code may raise anything, also for this seed alone
        return
    wanted = TextPosition if in_words else Position
    if lacking := missing_methods(position, wanted):
        methods = ", ".join(f"{name}()" for name in lacking)
        raise ConfigError(f"game {key}: start() gives a {type(position).__name__}, which lacks {methods}")


def refuse_non_game(game: object, key: str, *, in_words: bool = False) -> None:
    """Raise ConfigError that says why what a user's factory made is no game."""
    made = f"game {key}: its factory gives a {type(game).__name__}"
    if lacking := missing_methods(game, TextGame if in_words else Game):
        raise ConfigError(f"{made}, which lacks {', '.join(lacking)}")
    if not isinstance(spec := getattr(game, "spec", None), GameSpec):
        raise ConfigError(f"{made}, whose spec is a {type(spec).__name__}; expected a GameSpec")
