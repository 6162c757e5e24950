"""Players of a match: published versions, fixed players and endpoints, by the name that a user types.

Invariant: a member that was found can play the game of the match; one that cannot is an error that names those who can.
"""

from __future__ import annotations

from dataclasses import dataclass

from ludus.config import RunConfig, nearest_word
from ludus.errors import ConfigError
from ludus.explore.players.fixed import BUILT_IN, PLAYERS, make_player
from ludus.explore.players.text import make_text_player
from ludus.games import make_game
from ludus.games.protocol import Game, GameSpec
from ludus.games.text_protocol import TextGame
from ludus.games.text_registry import make_text_game
from ludus.lm.language_shape import LanguageModelShape
from ludus.policies import PolicyStore, TabularShape
from ludus.records import PolicyName, PolicyRef
from ludus.storage.run_directory import RunDirectory

LATEST = "latest"
MOST_NAMED = 12
"""Versions that an error names; of more, the first and the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One player of a match."""

    ref: PolicyRef
    is_version: bool
    """Whether it has weights; else it is a fixed player or an endpoint."""

    @property
    def label(self) -> str:
        """Name for people."""
        return str(self.ref) if self.is_version else str(self.ref.name)


class Table:
    """The game of a match, and everybody who can be asked to it."""

    def __init__(self, run: RunDirectory, config: RunConfig, game: str | None) -> None:
        """`game` is a key of the run's games; None for the first."""
        keys = [choice.key for choice in config.games]
        if not keys:
            raise ConfigError(f"{run.path} attempts tasks and plays no games; there is nobody to play against")
        self.key = game or keys[0]
        if self.key not in keys:
            raise ConfigError(f"{run.path} does not play {self.key}; it plays: {', '.join(keys)}")
        self.run, self.config = run, config
        self.store = PolicyStore(run.policies)
        self.words: TextGame | None = None
        self.board: Game | None = None
        if config.policy.model is not None:
            self.words = make_text_game(self.key)
            self.spec: GameSpec = self.words.spec
        else:
            self.board = make_game(self.key)
            self.spec = self.board.spec
        if self.spec.players < 2:
            raise ConfigError(f"{self.key} has one seat; a match needs a game of two or more")

    def find(self, text: str) -> Side:
        """The member that a person means by `main@12`, `12`, `main`, `latest`, `random` or `mcts-25`.

        Raises:
            ConfigError: there is no such member, or it cannot play this game.
        """
        name, _, version = text.rpartition("@") if "@" in text else ("", "", text)
        if version == LATEST or _is_number(version):
            return self._version(text, name or self.config.policy.name, version)
        if text in self.store.names():
            return self._version(text, text, LATEST)
        if text in self.config.explore.endpoints:
            return Side(ref=PolicyRef(name=PolicyName(text)), is_version=False)
        return self._fixed(text)

    def is_table(self, side: Side) -> bool:
        """Whether a side is a table of probabilities, which PSRO has computed."""
        return side.is_version and isinstance(self.store.shape(side.ref), TabularShape)

    def speaks(self, side: Side) -> bool:
        """Whether a side is a language model."""
        return side.is_version and isinstance(self.store.shape(side.ref), LanguageModelShape)

    def _version(self, text: str, name: str, version: str) -> Side:
        versions = self.store.versions(name)
        if not versions:
            raise self._unknown(text)
        wanted = versions[-1].version if version == LATEST else int(version)
        for ref in versions:
            if ref.version == wanted:
                return Side(ref=ref, is_version=True)
        nearest = min(versions, key=lambda ref: abs(ref.version - wanted))
        raise self._unknown(text, nearest=str(nearest))

    def _fixed(self, text: str) -> Side:
        try:
            self._try_to_make(text)
        except ConfigError:
            # A player that exists has its own reasons; somebody unknown may be a version that is misspelled.
            if text.partition("-")[0] in BUILT_IN or text in PLAYERS:
                raise
            raise self._unknown(text) from None
        return Side(ref=PolicyRef(name=PolicyName(text)), is_version=False)

    def _try_to_make(self, name: str) -> None:
        if self.words is not None:
            make_text_player(name, self.words)
        elif self.board is not None:
            make_player(name, self.board)

    def _unknown(self, text: str, nearest: str | None = None) -> ConfigError:
        versions = [str(ref) for name in self.store.names() for ref in self.store.versions(name)]
        others = [*BUILT_IN, *self.config.explore.endpoints, LATEST]
        near = nearest or nearest_word(text, [*versions, *others])
        hint = f"; did you mean {near}?" if near else "."
        named = versions if len(versions) <= MOST_NAMED else [*versions[:3], "...", *versions[-3:]]
        here = f"It has published {', '.join(named)}" if versions else "It has published no policy yet"
        fixed = "random, first, mcts-25, minimax-3" + "".join(f", {name}" for name in self.config.explore.endpoints)
        return ConfigError(f"{text!r} is no member of {self.run.path}{hint} {here}. Fixed players are such as {fixed}")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10
