"""Games that exist in words only, for `ludus games`: TextArena's, and text games that somebody registered.

Invariant: as quick and free of side effects as `listing`: TextArena is not loaded. Ids that only tell a game with
other words (`-train`, `-raw`) are not listed, but can be played.
"""

from __future__ import annotations

from ludus.errors import LudusError
from ludus.games.listing import GameListing, available_games, describe_spec
from ludus.games.text_arena_catalog import VARIANTS, known_ids, player_range, refusal
from ludus.games.text_registry import TEXT_GAMES, make_text_game, missing_text_package


def available_text_games() -> list[GameListing]:
    """Every game that is known here in words only, playable or not, by key."""
    return sorted([*_registered(), *_text_arena()], key=lambda listing: listing.key)


def keys_in_words() -> list[str]:
    """The keys of all games that can be played in words here."""
    listings = [*available_games(), *available_text_games()]
    return [listing.key for listing in listings if listing.ok and listing.in_words]


def _registered() -> list[GameListing]:
    return [_registered_game(name) for name in TEXT_GAMES.names()]


def _registered_game(name: str) -> GameListing:
    try:
        return describe_spec(make_text_game(name).spec, in_words=True)
    except (LudusError, ImportError, AttributeError) as error:
        return GameListing(key=name, ok=False, reason=str(error), in_words=True)


def _text_arena() -> list[GameListing]:
    if problem := missing_text_package("textarena"):
        return [GameListing(key="textarena:*", ok=False, reason=problem, in_words=True)]
    return [_text_arena_game(id, game) for id, game in known_ids().items() if not id.endswith(VARIANTS)]


def _text_arena_game(id: str, game: str) -> GameListing:
    fewest, most = player_range(game)
    reason = refusal(game)
    return GameListing(
        key=f"textarena:{id}",
        players=str(fewest) if fewest == most else f"{fewest}-{most}",
        dynamics="sequential",
        has_chance=None,
        observation_shape=(),
        in_words=True,
        ok=not reason,
        reason=reason,
    )
