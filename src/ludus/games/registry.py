"""Games by key, `<back end>:<name>` or the name of a game that somebody registered.

Board games are `open_spiel:<name>`, `pgx:<name>`, `pettingzoo:<name>` and `chess:<name>`, text games
`open_spiel:<name>` and `textarena:<id>`. Invariant: `make_game(key).spec.key == key`, so that the key in a record
always finds the game again; `make_text_game` likewise. Add a game from a plugin with `register_game` or
`register_text_game`, a back end of many games (`mine:<name>`) with `register_backend`; or from an installed package
with an entry point in the group `ludus.games`, `ludus.text_games` or `ludus.backends`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from importlib import import_module
from typing import Any, TypeVar

from ludus.errors import ConfigError, LudusError
from ludus.extras import missing_packages
from ludus.games.missing_methods import refuse_non_game
from ludus.games.protocol import DeviceGame, Game, TextGame
from ludus.plugin_frames import in_words as in_words_of
from ludus.plugin_frames import plugin_place
from ludus.plugins import Registry, plugin_hint

GameFactory = Callable[[], Game]
TextGameFactory = Callable[[], TextGame]
Backend = Callable[[str], Game]
"""Makes the game of a name, which is what stands after the colon of a key."""
AnyGame = TypeVar("AnyGame", Game, TextGame)

PACKAGES = {
    "chess": "ludus_chess",
    "open_spiel": "pyspiel",
    "pettingzoo": "pettingzoo",
    "pgx": "pgx",
    "textarena": "textarena",
}
"""What each back end imports."""


def missing_package(backend: str) -> str:
    """What to install before a back end can be used; empty when it is there."""
    return missing_packages("it", PACKAGES[backend])


def _built_in(backend: str, module: str, factory: str) -> Callable[[str], Any]:
    """A back end of ours. Its module, which imports the back end's package, is loaded with its first game."""

    def make(name: str) -> Any:
        if problem := missing_package(backend):
            raise ConfigError(f"game {backend}:{name}: {problem}")
        return getattr(import_module(f"ludus.{module}"), factory)(name)

    return make


_NAME, _EXPECTED = r"[^\s:]+", "any letters without a colon or spaces, such as my_game"
GAMES: Registry[GameFactory] = Registry("game", "ludus.games", pattern=_NAME, expected=_EXPECTED)
TEXT_GAMES: Registry[TextGameFactory] = Registry("text game", "ludus.text_games", pattern=_NAME, expected=_EXPECTED)
BACKENDS: Registry[Backend] = Registry(
    "backend",
    "ludus.backends",
    built_in={
        "chess": _built_in("chess", "chess.game", "ChessGame"),
        "open_spiel": _built_in("open_spiel", "games.open_spiel", "OpenSpielGame"),
        "pettingzoo": _built_in("pettingzoo", "games.pettingzoo", "make_pettingzoo_game"),
        "pgx": _built_in("pgx", "games.pgx", "PgxGame"),
    },
)
TEXT_BACKENDS: dict[str, Callable[[str], TextGame]] = {
    "open_spiel": _built_in("open_spiel", "games.text_open_spiel", "OpenSpielTextGame"),
    "textarena": _built_in("textarena", "games.text_arena", "TextArenaGame"),
}


def register_game(name: str, factory: GameFactory) -> None:
    """Make a game known under a name; its `spec.key` must be that name."""
    GAMES.add(name, factory)


def register_text_game(name: str, factory: TextGameFactory) -> None:
    """Make a text game known under a name; its `spec.key` must be that name."""
    TEXT_GAMES.add(name, factory)


def register_backend(name: str, backend: Backend) -> None:
    """Make games known under keys `<name>:<game>`; the `spec.key` of each must be its key."""
    BACKENDS.add(name, backend)


def make_game(key: str) -> Game:
    """Make the game that a key names."""
    prefix, colon, _ = key.partition(":")
    is_known = prefix in BACKENDS if colon else key in GAMES
    if not is_known and (prefix in TEXT_BACKENDS if colon else key in TEXT_GAMES):
        raise ConfigError(f"game {key}: is a game of words, which language models play; write policy.model")
    backends = f"unknown backend {prefix!r}; expected {' or '.join(BACKENDS.names())}"
    problem = backends if colon else "no such game; `ludus games` lists them"
    return _make(key, BACKENDS.get(prefix), GAMES.get(key), problem)


def make_text_game(key: str) -> TextGame:
    """Make the text game that a key names."""
    prefix, colon, _ = key.partition(":")
    backends = f"{prefix!r} has no games of words; expected {' or '.join(TEXT_BACKENDS)}"
    problem = backends if colon else "no such text game; `ludus games --text` lists them"
    return _make(key, TEXT_BACKENDS.get(prefix), TEXT_GAMES.get(key), problem, in_words=True)


def _make(
    key: str,
    backend: Callable[[str], AnyGame] | None,
    factory: Callable[[], AnyGame] | None,
    problem: str,
    *,
    in_words: bool = False,
) -> AnyGame:
    """The game of a back end or of a factory, whichever the key means; without it, raise what the problem is."""
    _, colon, name = key.partition(":")
    if colon and backend:
        game = _made(key, lambda: backend(name), in_words=in_words)
    elif factory and not colon:
        game = _made(key, factory, in_words=in_words)
    else:
        near = _hint(key, in_words=in_words)
        raise ConfigError(f"game {key}: {problem}{near}{' Else:' if near else ';'} {plugin_hint()}")
    if game.spec.key != key:
        raise ConfigError(f"game {key}: its spec says key={game.spec.key!r}; the two must be equal")
    return game


def _made(key: str, make: Callable[[], AnyGame], *, in_words: bool) -> AnyGame:
    """The game that a factory or a back end makes; a user's own may raise, or give something else."""
    try:
        game = make()
    except (LudusError, ImportError):
        raise
    except Exception as error:
        if not plugin_place(error):
            raise
        raise ConfigError(f"game {key}: could not be made: {in_words_of(error)}") from error
    refuse_non_game(game, key, in_words=in_words)
    return game


def is_users_own(key: str, *, in_words: bool = False) -> bool:
    """Whether a key names a game of a plugin or of an installed package."""
    prefix, colon, _ = key.partition(":")
    if colon:
        return not in_words and prefix in BACKENDS and prefix not in BACKENDS.built_in
    return key in (TEXT_GAMES if in_words else GAMES)


def find_device_game(game: Game) -> DeviceGame:
    """The game as the device plays it: itself, or the tables of its whole tree, which is built from OpenSpiel.

    Raises:
        ConfigError: it cannot be played there.
    """
    if isinstance(game, DeviceGame):
        return game
    if not game.spec.tree:
        raise ConfigError(f"{game.spec.key}: cannot be played on the device; write topology: split")
    from ludus.games.tabulated import TabulatedGame
    from ludus.games.tabulating import tabulate

    return TabulatedGame(game.spec, tabulate(game.spec.tree))


def _hint(key: str, *, in_words: bool) -> str:
    from ludus.games.listing import available_games, available_text_games

    listings = [*available_games(), *(available_text_games() if in_words else ())]
    known = [listing.key for listing in listings if listing.ok and (listing.in_words or not in_words)]
    bare = key.rpartition(":")[2]
    namesakes = [near for near in known if near.rpartition(":")[2] == bare]
    return f"; did you mean {' or '.join(namesakes)}?" if namesakes else did_you_mean(key, known)


def did_you_mean(name: str, known: Iterable[str], *, prefix: str = "") -> str:
    """What to say after an unknown name: those that are nearest to it; empty when none is near."""
    nearest = get_close_matches(name, list(known), n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(prefix + near for near in nearest)}?" if nearest else ""
