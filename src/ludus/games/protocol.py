"""What a game is, to every other room. Add a game by writing two small classes and registering the first.

A `Game` describes itself and starts positions; a `Position` is one game in progress. Chance is resolved inside the
position from its seed, so the same seed and the same actions always give the same game.

In a `TextGame`, observations and moves are text, and a move may be wrong. A `TextPosition` tells a seat what is new
since it last looked and takes its move as text. Seats act one at a time; where a game lets them act together, the
position asks for them in turn and shows nobody what others have chosen before all have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ludus.errors import EnvError

if TYPE_CHECKING:
    import jax


@dataclass(frozen=True, slots=True, kw_only=True)
class GameSpec:
    """What can be known about a game before it starts."""

    key: str
    """Backend and name, such as `open_spiel:connect_four` or `pgx:connect_four`."""
    players: int
    actions: int
    """Number of distinct actions; legal masks are `[actions]`."""
    observation_shape: tuple[int, ...]
    """Shape of what one seat sees; empty when the game has no tensor (text only)."""
    max_length: int
    """Upper bound on plies (decisions), chance not counted."""
    is_simultaneous: bool = False
    has_chance: bool = False
    is_zero_sum: bool = True
    has_perfect_information: bool = True
    rewards_every_move: bool = False
    """Whether rewards can arrive before the end."""
    min_return: float = -1.0
    max_return: float = 1.0
    teams: tuple[int, ...] = ()
    """Team of each seat; empty when every seat plays for itself."""
    teams_share_rewards: bool = True
    """Whether the seats of a team always get the same."""
    state_shape: tuple[int, ...] = ()
    """Shape of what `StatePosition.state` writes; empty when the game's positions have no such method."""
    layout: Literal["channels_first", "channels_last"] = "channels_first"
    """Which axis of a board observation holds the planes."""
    tree: str = ""
    """Name of the OpenSpiel game with the same tree, actions and observations; empty where there is none."""
    is_searchable: bool = False
    """Whether positions are `SearchablePosition`s, so that OpenSpiel's players can look ahead in them."""

    @property
    def sides(self) -> tuple[tuple[int, ...], ...]:
        """The seats of each side: those of a team together, every other by itself."""
        teams = self.teams or tuple(range(self.players))
        return tuple(tuple(seat for seat, of in enumerate(teams) if of == team) for team in dict.fromkeys(teams))

    @property
    def state_size(self) -> int:
        """How many numbers `write_state` writes."""
        return prod(self.state_shape) if self.state_shape else prod(self.observation_shape) * self.players

    @property
    def pays_by_degree(self) -> bool:
        """Whether a game pays more than win or lose, so that the mean return says more than the score."""
        return (self.min_return, self.max_return) not in ((-1.0, 1.0), (0.0, 1.0))

    @property
    def must_mix(self) -> bool:
        """Whether to play well may take chance: what is likeliest is no measure of a policy then."""
        return not self.is_cooperative and (self.is_simultaneous or not self.has_perfect_information)

    @property
    def is_cooperative(self) -> bool:
        """Whether all seats play together, so that nobody is left to play against."""
        return self.players == 1 or len(set(self.teams)) == 1


@runtime_checkable
class Position(Protocol):
    """One game in progress. Mutable; owned by one runner."""

    def acting(self) -> Sequence[int]:
        """Seats that must act now: one in turn-based play, several in simultaneous play, none when over."""
        ...

    def legal(self, seat: int) -> Sequence[int]:
        """Legal actions of an acting seat, ascending, never empty."""
        ...

    def observe(self, seat: int, out: NDArray[np.float32]) -> None:
        """Write what the seat sees into `out`, `observation_shape`."""
        ...

    def act(self, actions: Mapping[int, int]) -> None:
        """Play one action for every acting seat; chance that follows is resolved."""
        ...

    def returns(self) -> Sequence[float]:
        """Total reward so far, per seat."""
        ...

    def text(self, seat: int | None = None) -> str:
        """Show the position, as the seat may see it (None: all of it)."""
        ...

    def action_text(self, seat: int, action: int) -> str:
        """Name an action as a person writes it."""
        ...


class StatePosition(Position, Protocol):
    """A position that can show all of itself at once, for a critic that sees more than a seat does."""

    def state(self, out: NDArray[np.float32]) -> None:
        """Write the whole state into `out`, `state_shape`."""
        ...


@runtime_checkable
class SearchablePosition(Position, Protocol):
    """A position that OpenSpiel's own players can search: of its games, and of games that have a twin there."""

    def open_spiel_state(self) -> Any:
        """A copy of the `pyspiel.State`; its players are the seats."""
        ...

    def from_open_spiel(self, action: int) -> int:
        """The position's own number of one of OpenSpiel's actions."""
        ...


def write_state(position: Position, spec: GameSpec, out: NDArray[np.float32]) -> None:
    """Write the whole state into `out`, `[spec.state_size]`; without a `state_shape` that is what all seats see."""
    if spec.state_shape:
        cast("StatePosition", position).state(out.reshape(spec.state_shape))
        return
    for seat, part in enumerate(out.reshape(spec.players, *spec.observation_shape)):
        position.observe(seat, part)


@runtime_checkable
class Game(Protocol):
    """A game that can be played any number of times."""

    @property
    def spec(self) -> GameSpec:
        """What the game is. Constant."""
        ...

    def start(self, seed: int) -> Position:
        """Begin a game; the seed decides all chance."""
        ...


@runtime_checkable
class DeviceGame(Protocol):
    """A game whose steps can be compiled."""

    @property
    def spec(self) -> GameSpec:
        """What the game is."""
        ...

    @property
    def env(self) -> Any:
        """With `num_players`, `init(key)` and `step(state, action, key)`, and states like pgx's."""
        ...

    def seat_order(self, state: Any) -> jax.Array:
        """The environment's players of a fresh state by seat, `[P]`; can be jitted and mapped."""
        ...


class InvalidMove(EnvError):
    """A seat's move was not one that the rules allow; the position is as it was."""


@runtime_checkable
class TextPosition(Protocol):
    """One game in progress. Mutable; owned by one runner."""

    def acting(self) -> int | None:
        """The seat that must act now; None when the game is over."""
        ...

    def news(self, seat: int) -> str:
        """What the acting seat is told before this move: at its first move the rules and the position, later what has
        happened since its last move. Asking again before the move gives the same text."""
        ...

    def moves(self, seat: int) -> Sequence[str] | None:
        """The legal moves of the acting seat as it would write them; None where a game cannot list them."""
        ...

    def act(self, seat: int, move: str) -> None:
        """Make the acting seat's move.

        Raises:
            InvalidMove: the rules do not allow it.
        """
        ...

    def returns(self) -> Sequence[float]:
        """Total reward so far, per seat."""
        ...

    def text(self) -> str:
        """Show the position as an onlooker sees it."""
        ...


@runtime_checkable
class TextGame(Protocol):
    """A game of words that can be played any number of times."""

    @property
    def spec(self) -> GameSpec:
        """What the game is; `actions` is 0 and `observation_shape` empty. Constant."""
        ...

    @property
    def blocks(self) -> bool:
        """Whether its code may take long enough that it should run beside the event loop, in a thread."""
        ...

    def start(self, seed: int) -> TextPosition:
        """Begin a game; the seed decides all chance."""
        ...
