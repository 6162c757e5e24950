"""What can be played here, with numbered moves or in words, for `ludus games` and for error messages.

Invariant: quick (well under a second) and without side effects: OpenSpiel's games are read from its register, pgx's
and PettingZoo's from our tables, TextArena's ids from its source, so neither JAX, TextArena nor a large game is loaded.
Not listed: OpenSpiel's few games written in Python, which are played by name (`open_spiel:python_kuhn_poker`), and ids
of TextArena that only tell a game with other words (`-train`, `-raw`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ludus.errors import LudusError
from ludus.games.protocol import Game, GameSpec, TextGame
from ludus.games.registry import BACKENDS, GAMES, TEXT_GAMES, make_game, make_text_game, missing_package

CHESS = ("chess:standard", "chess:openings")
SLOW_TO_LOAD = frozenset({"colored_trails"})
"""OpenSpiel's games that take more than a tenth of a second to load; what only loading can tell is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GameListing:
    """One line of `ludus games`."""

    key: str
    players: str = ""
    """A number, or a range where a parameter decides."""
    dynamics: str = ""
    """`sequential`, `simultaneous` or `mean-field`."""
    has_chance: bool | None = False
    """None when not known."""
    information: str = ""
    """`perfect`, `imperfect` or `one-shot`; empty when not known."""
    actions: int | None = None
    observation_shape: tuple[int, ...] | None = None
    """Empty when the game is text only; None when not known without loading it."""
    in_words: bool = False
    """Whether language models can play it."""
    ok: bool = True
    reason: str = ""
    """Why it cannot be played, when it cannot."""


def available_games() -> list[GameListing]:
    """Every game with numbered moves that is known here, playable or not, by key."""
    registered = [_registered_game(name, make_game) for name in GAMES.names()]
    backends = [_own_backend(name) for name in BACKENDS.names() if name not in BACKENDS.built_in]
    games = [*registered, *backends, *_chess_games(), *_open_spiel_games(), *_pettingzoo_games(), *_pgx_games()]
    return sorted(games, key=lambda listing: listing.key)


def available_text_games() -> list[GameListing]:
    """Every game that is known here in words only, playable or not, by key."""
    registered = [_registered_game(name, make_text_game, in_words=True) for name in TEXT_GAMES.names()]
    return sorted([*registered, *_text_arena_games()], key=lambda listing: listing.key)


def _registered_game(name: str, make: Callable[[str], Game | TextGame], *, in_words: bool = False) -> GameListing:
    try:
        return _describe(make(name).spec, in_words=in_words)
    except (LudusError, ImportError, AttributeError) as error:
        return GameListing(key=name, ok=False, reason=str(error), in_words=in_words)


def _own_backend(name: str) -> GameListing:
    """A back end of a plugin: only itself knows which names it has games for."""
    return GameListing(key=f"{name}:...", players="-", dynamics="-", has_chance=None)


def _describe(spec: GameSpec, *, in_words: bool = False) -> GameListing:
    return GameListing(
        key=spec.key,
        players=str(spec.players),
        dynamics="simultaneous" if spec.is_simultaneous else "sequential",
        has_chance=spec.has_chance,
        information="perfect" if spec.has_perfect_information else "imperfect",
        actions=None if in_words else spec.actions,
        observation_shape=spec.observation_shape,
        in_words=in_words,
    )


def _players(fewest: int, most: int) -> str:
    return str(fewest) if fewest == most else f"{fewest}-{most}"


def _chess_games() -> list[GameListing]:
    if problem := missing_package("chess"):
        return [GameListing(key=key, ok=False, reason=problem) for key in CHESS]
    return [_registered_game(key, make_game) for key in CHESS]


def _pgx_games() -> list[GameListing]:
    from ludus.games.pgx_rules import REFUSED, RULES

    if problem := missing_package("pgx"):
        return [GameListing(key="pgx:*", ok=False, reason=problem)]
    refused = [GameListing(key=f"pgx:{name}", ok=False, reason=reason) for name, reason in REFUSED.items()]
    return [*map(_describe, RULES.values()), *refused]


def _pettingzoo_games() -> list[GameListing]:
    from ludus.games.pettingzoo_catalog import ENVIRONMENTS, missing_for

    if problem := missing_package("pettingzoo"):
        return [GameListing(key="pettingzoo:*", ok=False, reason=problem)]
    return [
        GameListing(
            key=f"pettingzoo:{name}",
            players=facts.players,
            dynamics="simultaneous" if facts.simultaneous else "sequential",
            has_chance=facts.has_chance,
            information="perfect" if facts.perfect_information else "imperfect",
            actions=facts.actions,
            observation_shape=facts.observation_shape,
            ok=not missing_for(name),
            reason=missing_for(name),
        )
        for name, facts in ENVIRONMENTS.items()
    ]


def _open_spiel_games() -> list[GameListing]:
    if problem := missing_package("open_spiel"):
        return [GameListing(key="open_spiel:*", ok=False, reason=problem)]
    from ludus.games.open_spiel_loading import is_written_in_python, registered_types, silent_stderr

    with silent_stderr():
        return [_open_spiel_game(found) for name, found in registered_types().items() if not is_written_in_python(name)]


def _open_spiel_game(game_type: Any) -> GameListing:
    import pyspiel

    from ludus.games.open_spiel_loading import tensor_shape, type_refusal

    reason = type_refusal(game_type)
    actions, shape = None, None
    if not reason and game_type.short_name not in SLOW_TO_LOAD:
        game = pyspiel.load_game(game_type.short_name)
        actions, shape = game.num_distinct_actions(), tensor_shape(game)
    return GameListing(
        key=f"open_spiel:{game_type.short_name}",
        players=_players(game_type.min_num_players, game_type.max_num_players),
        dynamics=game_type.dynamics.name.lower().replace("_", "-"),
        has_chance=game_type.chance_mode.name != "DETERMINISTIC",
        information=game_type.information.name.lower().removesuffix("_information").replace("_", "-"),
        actions=actions,
        observation_shape=shape,
        in_words=True,
        ok=not reason,
        reason=reason,
    )


def _text_arena_games() -> list[GameListing]:
    from ludus.games.text_arena_catalog import VARIANTS, known_ids, player_range, refusal

    if problem := missing_package("textarena"):
        return [GameListing(key="textarena:*", ok=False, reason=problem, in_words=True)]
    return [
        GameListing(
            key=f"textarena:{id}",
            players=_players(*player_range(game)),
            dynamics="sequential",
            has_chance=None,
            observation_shape=(),
            in_words=True,
            ok=not refusal(game),
            reason=refusal(game),
        )
        for id, game in known_ids().items()
        if not id.endswith(VARIANTS)
    ]
