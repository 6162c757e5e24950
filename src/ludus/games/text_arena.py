"""TextArena's games as text games, by id: `textarena:TicTacToe-v0`, `textarena:LiarsDice-v0(players=4)`.

Invariant: the seed and the accepted moves decide a game. An invalid move is caught where TextArena notices it, before
its own counting of errors, and the position is made again from its moves when it is next used: it is as it was.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ludus.errors import ConfigError, EnvError, boundary
from ludus.games.protocol import GameSpec, InvalidMove
from ludus.games.text_arena_catalog import known_ids, load_environment, player_range, registration
from ludus.games.text_arena_env import Environment, MoveRefused, Turn

MAX_PLIES = 10_000
"""A game that is not over then has failed; TextArena bounds few of its games itself."""
MAX_MOVE_CHARS = 10_000
RETURNS = {"LightsOut": (-100.0, 1.0), "Set": (-20.0, 20.0)}
"""Where they may lie outside of -1 to 1."""
SLOW = frozenset({"RushHour", "Set", "Sokoban", "Sudoku"})
"""Games that take more than a few milliseconds to begin."""

_KEY = re.compile(r"(?P<id>[^()]+)(?:\(players=(?P<players>\d{1,3})\))?")


class TextArenaGame:
    """A game of TextArena."""

    def __init__(self, name: str) -> None:
        match = _KEY.fullmatch(name)
        if not match:
            raise ConfigError(f"game textarena:{name[:80]}: expected an id, or id(players=number)")
        self._id = match["id"]
        self._make = load_environment(self._id)
        self._game = known_ids()[self._id]
        self._players = _number_of_players(name, self._game, match["players"])
        self.spec = self._describe(name)
        self.blocks = self._game in SLOW
        """Whether beginning it, or an invalid move in it, takes more than a few milliseconds."""

    def start(self, seed: int) -> TextArenaPosition:
        """Begin a game; the seed decides all chance."""
        return TextArenaPosition(self._environment(), self.spec, seed)

    def _environment(self) -> Environment:
        wrappers = tuple(registration(self._id).default_wrappers or ())
        return Environment(self._make, game=self._game, players=self._players, wrappers=wrappers)

    def _describe(self, name: str) -> GameSpec:
        """The spec. All of TextArena's games are taken to have chance and hidden information."""
        environment = self._environment()
        try:
            environment.begin(0)
        except Exception as error:
            raise ConfigError(f"game textarena:{name}: does not start ({type(error).__name__}: {error})") from error
        low, high = RETURNS.get(self._game, (-1.0, 1.0))
        return GameSpec(
            key=f"textarena:{name}",
            players=self._players,
            actions=0,
            observation_shape=(),
            max_length=MAX_PLIES,
            has_chance=True,
            is_zero_sum=environment.is_duel,
            has_perfect_information=False,
            min_return=low,
            max_return=high,
        )


class TextArenaPosition:
    """One game of TextArena in progress."""

    __slots__ = ("_environment", "_is_touched", "_made", "_seed", "_spec", "_turn")

    def __init__(self, environment: Environment, spec: GameSpec, seed: int) -> None:
        self._environment = environment
        self._spec = spec
        self._seed = seed
        self._made: list[str] = []
        self._is_touched = False
        with boundary(EnvError, f"{spec.key}: start({seed})"):
            environment.begin(seed)
            self._turn = environment.look()

    def acting(self) -> int | None:
        """The seat that must act now; None when the game is over."""
        return None if self._turn is None else self._turn.seat

    def news(self, seat: int) -> str:
        """What the acting seat is told before this move."""
        return self._turn_of(seat).news

    def moves(self, seat: int) -> Sequence[str] | None:
        """The legal moves, for games whose moves ludus can list."""
        return self._turn_of(seat).moves

    def act(self, seat: int, move: str) -> None:
        """Make the acting seat's move; brackets around it may be left out where TextArena adds them."""
        self._turn_of(seat)
        if len(move) > MAX_MOVE_CHARS or not move.strip():
            raise InvalidMove(f"{self._spec.key}: expected a move of 1 to {MAX_MOVE_CHARS} characters")
        if len(self._made) >= self._spec.max_length:
            raise EnvError(f"{self._spec.key}: not over after {self._spec.max_length} moves")
        self._restore()
        try:
            with boundary(EnvError, f"{self._spec.key}: {move[:80]!r}"):
                self._environment.step(move)
                self._turn = self._environment.look()
        except MoveRefused as refused:
            self._is_touched = True
            raise InvalidMove(f"{self._spec.key}: {refused}") from None
        self._made.append(move)

    def returns(self) -> list[float]:
        """Total reward so far, per seat; TextArena pays at the end."""
        return self._environment.rewards() if self._turn is None else [0.0] * self._spec.players

    def text(self) -> str:
        """The board as TextArena draws it, else what the acting seat is told."""
        self._restore()
        return self._environment.board() or (self._turn.news if self._turn else "(the game is over)")

    def _turn_of(self, seat: int) -> Turn:
        if self._turn is None or seat != self._turn.seat:
            raise InvalidMove(f"{self._spec.key}: it is not seat {seat}'s turn")
        return self._turn

    def _restore(self) -> None:
        """Make the position again from its moves if an invalid one has touched it."""
        if not self._is_touched:
            return
        try:
            with boundary(EnvError, f"{self._spec.key}: seed {self._seed} again"):
                self._environment.begin(self._seed)
                self._environment.look()
                for move in self._made:
                    self._environment.step(move)
                    self._environment.look()
        except MoveRefused as refused:
            raise EnvError(f"{self._spec.key}: the same seed and moves gave another game ({refused})") from None
        self._is_touched = False


def _number_of_players(name: str, game: str, wanted: str | None) -> int:
    fewest, most = player_range(game)
    players = fewest if wanted is None else int(wanted)
    if not fewest <= players <= most:
        expected = str(fewest) if fewest == most else f"{fewest} to {most}"
        raise ConfigError(f"game textarena:{name}: is for {expected} players")
    return players
