"""Any game of OpenSpiel as a game of words.

Invariant: `moves(seat)[i]` is the word for `position.legal(seat)[i]`, so players that choose a number and players that
write words mean the same move. In games where seats act together they are asked in turn, and what they chose is played
when the last has chosen. Add a better first line for a game to `RULES`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyspiel

from ludus.games.move_text import find_move, listed, shorten
from ludus.games.open_spiel import OpenSpielGame, OpenSpielPosition
from ludus.games.protocol import GameSpec, InvalidMove

SHOWN_IN_ERRORS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a seat is told first."""

    line: str
    """`{seat}` is who the seat is."""
    seats: tuple[str, ...] = ()
    """What the seats are called; by number where this is empty."""
    free: str = ""
    """The sign of a free field on a board whose fields, row by row, are the moves: a free field is then shown as the
    number of the move that takes it, and that number is the word for the move."""


RULES = {
    "breakthrough": Rules(line="Breakthrough. You are {seat}. Reach the far row.", seats=("b", "w")),
    "chess": Rules(line="Chess. You are {seat}.", seats=("black", "white")),
    "connect_four": Rules(line="Connect four. You are {seat}. Name a column.", seats=("x", "o")),
    "go": Rules(line="Go. You are {seat}.", seats=("black", "white")),
    "hex": Rules(line="Hex. You are {seat}. x joins top and bottom, o left and right.", seats=("x", "o")),
    "kuhn_poker": Rules(
        line="Kuhn poker. You are player {seat}. You see your card (0 < 1 < 2), then what was done: p pass, b bet."
    ),
    "mnk": Rules(line="m,n,k. You are {seat}. Move: row,column.", seats=("x", "o")),
    "othello": Rules(line="Othello. You are {seat}.", seats=("x", "o")),
    "tic_tac_toe": Rules(line="Tic-tac-toe. You are {seat}.", seats=("x", "o"), free="."),
}
"""By OpenSpiel's short name."""

STONES = {"connect_four": "xo", "twixt": "xo"}
"""Games whose moves are named after the mover's stone and a field without anything between."""


class OpenSpielTextGame:
    """A game of OpenSpiel, played in words."""

    blocks = False

    def __init__(self, name: str) -> None:
        self.game = OpenSpielGame(name)
        """The same game for players that choose numbers."""
        self.spec = _in_words(self.game.spec)
        self._short = name.partition("(")[0]

    def start(self, seed: int) -> OpenSpielTextPosition:
        """Begin a game; the seed decides all chance."""
        return OpenSpielTextPosition(self.game.start(seed), self.spec, self._short)


class OpenSpielTextPosition:
    """One game of OpenSpiel in progress, in words."""

    __slots__ = ("_chosen", "_has_moved", "_names", "_short", "_spec", "_words", "position")

    def __init__(self, position: OpenSpielPosition, spec: GameSpec, short: str) -> None:
        self.position = position
        """The same position for players that choose numbers. Only this object may move in it."""
        self._spec = spec
        self._short = short
        self._chosen: dict[int, int] = {}
        self._has_moved: set[int] = set()
        self._names: list[str] | None = None
        self._words: list[str] | None = None

    def acting(self) -> int | None:
        """The seat that must act now: of those that act together, the first that has not chosen."""
        return next((seat for seat in self.position.acting() if seat not in self._chosen), None)

    def news(self, seat: int) -> str:
        """What the seat sees; at its first move after who it is and what is played."""
        state = self.position.open_spiel_state()
        seen = self._numbered(what_seat_knows(state, seat), seat)
        if seat in self._has_moved:
            return seen or "It is your turn."
        return "\n".join(part for part in (self._rules(state, seat), payoffs(state), seen) if part)

    def moves(self, seat: int) -> list[str]:
        """The words for the legal moves, in the order of their numbers."""
        if self._words is None and self._free:
            self._words = [str(action) for action in self.position.legal(seat)]
        elif self._words is None:
            self._words = shorten(self._full_names(seat), stones=STONES.get(self._short, ""))
        return self._words

    def act(self, seat: int, move: str) -> None:
        """Make the move that the words mean; also by the name that OpenSpiel gives it."""
        self.act_number(seat, self.number(seat, move))

    def act_number(self, seat: int, action: int) -> None:
        """Make the move of that number, as a player of the board game chooses it."""
        if seat != self.acting() or action not in self.position.legal(seat):
            raise InvalidMove(f"{self._spec.key}: action {action} is not legal for seat {seat}")
        self._chosen[seat] = action
        self._has_moved.add(seat)
        self._names = self._words = None
        if self.acting() is None:
            chosen, self._chosen = self._chosen, {}
            self.position.act(chosen)

    def number(self, seat: int, move: str) -> int:
        """The number of the legal move that the words mean."""
        if seat != self.acting():
            raise InvalidMove(f"{self._spec.key}: it is not seat {seat}'s turn")
        found = find_move(move, self.moves(seat))
        if found is None:
            found = find_move(move, self._full_names(seat))
        if found is None:
            legal = listed(self.moves(seat), most=SHOWN_IN_ERRORS)
            raise InvalidMove(f"{self._spec.key}: {move.strip()[:80]!r} is not a legal move; legal: {legal}")
        return self.position.legal(seat)[found]

    def words(self, seat: int, action: int) -> str:
        """How the seat writes the legal move of that number."""
        return self.moves(seat)[self.position.legal(seat).index(action)]

    def returns(self) -> list[float]:
        """Total reward so far, per seat."""
        return self.position.returns()

    def text(self) -> str:
        """Show the position, all of it."""
        return self.position.text()

    @property
    def _free(self) -> str:
        rules = RULES.get(self._short)
        return rules.free if rules else ""

    def _numbered(self, board: str, seat: int) -> str:
        """The board with each free field as the number of the move that takes it."""
        if not self._free:
            return board
        words = iter(self.moves(seat))
        return "".join(next(words) if sign == self._free else sign for sign in board)

    def _full_names(self, seat: int) -> list[str]:
        if self._names is None:
            state = self.position.open_spiel_state()
            self._names = [state.action_to_string(seat, action) for action in self.position.legal(seat)]
        return self._names

    def _rules(self, state: Any, seat: int) -> str:
        rules = RULES.get(self._short)
        if rules is None:
            return f"{state.get_game().get_type().long_name}. You are player {seat} of {self._spec.players}."
        return rules.line.format(seat=rules.seats[seat] if rules.seats else seat)


def what_seat_knows(state: Any, seat: int) -> str:
    """All that a seat may know about a `pyspiel.State`: what it sees, and what it has seen where that may be more."""
    game_type = state.get_game().get_type()
    is_open = game_type.information == pyspiel.GameType.Information.PERFECT_INFORMATION
    if game_type.provides_information_state_string and not is_open:
        shown = state.information_state_string(seat)
    elif game_type.provides_observation_string:
        shown = state.observation_string(seat)
    else:
        shown = str(state) if is_open else ""
    return str(shown).rstrip()


def payoffs(state: Any) -> str:
    """The payoffs of a matrix game; empty for other games."""
    if not isinstance(state.get_game(), pyspiel.MatrixGame):
        return ""
    return str(state).partition("\n")[2].rstrip()


def _in_words(spec: GameSpec) -> GameSpec:
    """The spec of the same game when seats speak one at a time."""
    together = spec.is_simultaneous
    return replace(
        spec,
        actions=0,
        observation_shape=(),
        max_length=spec.max_length * (spec.players if together else 1),
        is_simultaneous=False,
        has_perfect_information=spec.has_perfect_information and not together,
    )
