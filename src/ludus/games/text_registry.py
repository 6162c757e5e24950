"""Text games by key: `open_spiel:<name>`, `textarena:<id>`, or the name of a text game that somebody registered.

Invariant: `make_text_game(key).spec.key == key`. Add a text game from a plugin with `register_text_game`, or from an
installed package with an entry point in the group `ludus.text_games`; a new backend is one entry in `TEXT_BACKENDS`.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from importlib.util import find_spec

from ludus.errors import ConfigError
from ludus.games.registry import missing_package
from ludus.games.text_protocol import TextGame
from ludus.plugins import Registry

TextGameFactory = Callable[[], TextGame]

TEXT_GAMES: Registry[TextGameFactory] = Registry(
    "text game",
    "ludus.text_games",
    pattern=r"[^\s:]+",
    expected="any letters without a colon or spaces, such as my_game",
)


def register_text_game(name: str, factory: TextGameFactory) -> None:
    """Make a text game known under a name; its `spec.key` must be that name."""
    TEXT_GAMES.add(name, factory)


def make_text_game(key: str) -> TextGame:
    """Make the text game that a key names."""
    backend, colon, name = key.partition(":")
    if colon:
        if backend not in TEXT_BACKENDS:
            expected = " or ".join(TEXT_BACKENDS)
            raise ConfigError(f"game {key}: {backend!r} has no games of words; expected {expected}{_hint(key)}")
        return TEXT_BACKENDS[backend](name)
    if (factory := TEXT_GAMES.get(key)) is None:
        raise ConfigError(f"game {key}: no such text game; `ludus games --text` lists them{_hint(key)}")
    game = factory()
    if game.spec.key != key:
        raise ConfigError(f"game {key}: its spec says key={game.spec.key!r}; the two must be equal")
    return game


def missing_text_package(backend: str) -> str:
    """What to install before a backend's text games can be played; empty when it is there."""
    if backend != "textarena":
        return missing_package(backend)
    return "" if find_spec("textarena") else "textarena is not installed; pip install 'ludus[llm]'"


def _open_spiel(name: str) -> TextGame:
    _require("open_spiel", name)
    from ludus.games.text_open_spiel import OpenSpielTextGame

    return OpenSpielTextGame(name)


def _textarena(name: str) -> TextGame:
    _require("textarena", name)
    from ludus.games.text_arena import TextArenaGame

    return TextArenaGame(name)


def _require(backend: str, name: str) -> None:
    if problem := missing_text_package(backend):
        raise ConfigError(f"game {backend}:{name}: {problem}")


def _hint(key: str) -> str:
    from ludus.games.text_listing import keys_in_words

    known = keys_in_words()
    bare = key.rpartition(":")[2]
    nearest = [near for near in known if near.rpartition(":")[2] == bare]
    nearest = nearest or get_close_matches(key, known, n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(nearest)}?" if nearest else ""


TEXT_BACKENDS: dict[str, Callable[[str], TextGame]] = {"open_spiel": _open_spiel, "textarena": _textarena}
