"""`check_text_game` finds what a text game does wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ludus.errors import EnvError
from ludus.games.protocol import InvalidMove
from ludus.games.text_open_spiel import OpenSpielTextGame, OpenSpielTextPosition
from ludus.testing import ConformanceError, check_text_game


class Crooked:
    """A sound position whose answers a test may bend."""

    def __init__(self, inner: OpenSpielTextPosition, seed: int) -> None:
        self.inner = inner
        self.seed = seed

    def acting(self) -> int | None:
        return self.inner.acting()

    def news(self, seat: int) -> str:
        return self.inner.news(seat)

    def moves(self, seat: int) -> Sequence[str] | None:
        return self.inner.moves(seat)

    def act(self, seat: int, move: str) -> None:
        self.inner.act(seat, move)

    def returns(self) -> Sequence[float]:
        return self.inner.returns()

    def text(self) -> str:
        return self.inner.text()


class CrookedGame:
    """Tic-tac-toe with one thing wrong."""

    blocks = False

    def __init__(self, position: type[Crooked], **spec: Any) -> None:
        self._sound = OpenSpielTextGame("tic_tac_toe")
        self._position = position
        self.spec = replace(self._sound.spec, **spec)

    def start(self, seed: int) -> Crooked:
        return self._position(self._sound.start(seed), seed)


class ChattyAfterRefusal(Crooked):
    refused = 0

    def act(self, seat: int, move: str) -> None:
        try:
            self.inner.act(seat, move)
        except InvalidMove:
            self.refused += 1
            raise

    def news(self, seat: int) -> str:
        return f"{self.inner.news(seat)} {self.refused or ''}"


class NewsOnce(Crooked):
    told = 0

    def news(self, seat: int) -> str:
        self.told += 1
        return f"{self.told} {self.inner.news(seat)}"


class AcceptsNonsense(Crooked):
    def act(self, seat: int, move: str) -> None:
        legal = self.inner.moves(seat)
        self.inner.act(seat, move if move in legal else legal[0])


class WrongError(Crooked):
    def act(self, seat: int, move: str) -> None:
        try:
            self.inner.act(seat, move)
        except InvalidMove as error:
            raise EnvError(str(error)) from None


class ListsIllegal(Crooked):
    def moves(self, seat: int) -> Sequence[str] | None:
        return [*self.inner.moves(seat), "9,9"]


class ListsNothing(Crooked):
    def moves(self, seat: int) -> Sequence[str] | None:
        return []


class SeedShows(Crooked):
    def text(self) -> str:
        return f"{self.seed} {self.inner.text()}"


class NoSilence(Crooked):
    def news(self, seat: int) -> str:
        return " "


class Unbalanced(Crooked):
    def returns(self) -> Sequence[float]:
        return [1.0, 1.0] if self.inner.acting() is None else [0.0, 0.0]


class Unrepeatable(Crooked):
    games = 0

    def __init__(self, inner: OpenSpielTextPosition, seed: int) -> None:
        super().__init__(inner, seed)
        type(self).games += 1
        self.number = type(self).games

    def news(self, seat: int) -> str:
        return f"game {self.number}: {self.inner.news(seat)}"


@pytest.mark.parametrize(
    ("position", "promise"),
    [
        (ChattyAfterRefusal, "changes nothing"),
        (NewsOnce, "asked again before the move gives the same"),
        (AcceptsNonsense, "is refused with InvalidMove"),
        (WrongError, "raised"),
        (ListsIllegal, "which moves"),
        (ListsNothing, "is not empty"),
        (SeedShows, "starts the same with every seed"),
        (NoSilence, "says something"),
        (Unbalanced, "sum to 0"),
        (Unrepeatable, "the same seed and moves give the same game"),
    ],
)
def test_broken_promise_is_named(position: type[Crooked], promise: str) -> None:
    with pytest.raises(ConformanceError, match=promise) as caught:
        check_text_game(CrookedGame(position), games=3)
    assert str(caught.value).startswith("open_spiel:tic_tac_toe: ")


@pytest.mark.parametrize(
    ("change", "promise"),
    [
        ({"actions": 9}, "no actions"),
        ({"is_simultaneous": True}, "one at a time"),
        ({"max_length": 4}, "within max_length"),
        ({"max_return": 0.5}, "returns lie within"),
        ({"players": 1}, "zero-sum"),
    ],
)
def test_wrong_spec_is_named(change: dict[str, Any], promise: str) -> None:
    with pytest.raises(ConformanceError, match=promise):
        check_text_game(CrookedGame(Crooked, **change))


def test_sound_game_passes() -> None:
    check_text_game(CrookedGame(Crooked))
