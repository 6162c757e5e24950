"""Games by key: `open_spiel:<name>`, `pgx:<name>`, `pettingzoo:<name>`, or the name of a game that somebody registered.

Invariant: `make_game(key).spec.key == key`, so that the key in a record always finds the game again. Add a game from a
plugin with `register_game`, a back end of many games (`mine:<name>`) with `register_backend`; or either from an
installed package with an entry point in the group `ludus.games` or `ludus.backends`.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from importlib.util import find_spec

from ludus.errors import ConfigError
from ludus.games.protocol import Game
from ludus.plugins import Registry

GameFactory = Callable[[], Game]
Backend = Callable[[str], Game]
"""Makes the game of a name, which is what stands after the colon of a key."""

GAMES: Registry[GameFactory] = Registry(
    "game", "ludus.games", pattern=r"[^\s:]+", expected="any letters without a colon or spaces, such as my_game"
)


def register_game(name: str, factory: GameFactory) -> None:
    """Make a game known under a name; its `spec.key` must be that name."""
    GAMES.add(name, factory)


def register_backend(name: str, backend: Backend) -> None:
    """Make games known under keys `<name>:<game>`; the `spec.key` of each must be its key."""
    BACKENDS.add(name, backend)


def make_game(key: str) -> Game:
    """Make the game that a key names."""
    prefix, colon, name = key.partition(":")
    if colon:
        if (backend := BACKENDS.get(prefix)) is None:
            expected = " or ".join(BACKENDS.names())
            raise ConfigError(f"game {key}: unknown backend {prefix!r}; expected {expected}{_hint(key)}")
        game = backend(name)
    elif (factory := GAMES.get(key)) is not None:
        game = factory()
    else:
        raise ConfigError(f"game {key}: no such game; `ludus games` lists them{_hint(key)}")
    if game.spec.key != key:
        raise ConfigError(f"game {key}: its spec says key={game.spec.key!r}; the two must be equal")
    return game


def missing_package(backend: str) -> str:
    """What to install before a backend can be used; empty when it is there."""
    package = {"open_spiel": "pyspiel", "pgx": "pgx", "pettingzoo": "pettingzoo"}[backend]
    return "" if find_spec(package) else f"{backend} is not installed; pip install 'ludus[games]'"


def _open_spiel(name: str) -> Game:
    _require("open_spiel", name)
    from ludus.games.open_spiel import OpenSpielGame

    return OpenSpielGame(name)


def _pgx(name: str) -> Game:
    _require("pgx", name)
    from ludus.games.pgx import PgxGame

    return PgxGame(name)


def _pettingzoo(name: str) -> Game:
    _require("pettingzoo", name)
    from ludus.games.pettingzoo import make_pettingzoo_game

    return make_pettingzoo_game(name)


def _require(backend: str, name: str) -> None:
    if problem := missing_package(backend):
        raise ConfigError(f"game {backend}:{name}: {problem}")


def _hint(key: str) -> str:
    from ludus.games.listing import available_games

    known = [listing.key for listing in available_games() if listing.ok]
    bare = key.rpartition(":")[2]
    nearest = [near for near in known if near.rpartition(":")[2] == bare]
    nearest = nearest or get_close_matches(key, known, n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(nearest)}?" if nearest else ""


BACKENDS: Registry[Backend] = Registry(
    "backend", "ludus.backends", built_in={"open_spiel": _open_spiel, "pettingzoo": _pettingzoo, "pgx": _pgx}
)
