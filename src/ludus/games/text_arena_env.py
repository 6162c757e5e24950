"""One bare environment of TextArena and the dice that belong to it.

TextArena answers an invalid move in its own ways: another try, a lost turn, a lost game. Here every one of them ends
in `MoveRefused`, raised from inside `step` at the moment TextArena notices; the environment must not be used on after
that, only begun again. Two slips of TextArena that would end a won game in an AttributeError are mended (`_mend`).

TextArena repeats all that was said before every move; a conversation has it already, so a seat is told only what is
new, as much of it as the wrappers of the game's id would show, and never its own words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any

from ludus.games.text_arena_catalog import throwing
from ludus.games.text_arena_moves import legal_moves

TextMessage = tuple[int, str, Any]
"""Who speaks (-1 is the game), what, and TextArena's `ObservationType`."""
Teller = Callable[[Sequence[TextMessage], Mapping[int, str]], list[str]]

GAME = -1
NOTHING_NEW = "It is your turn."

START_ATTEMPTS = 8
"""TextArena's generators fail for some seeds; the next seeds, made from the same one, are tried."""
LOSSES = {"Minesweeper": "You hit a mine"}
"""Where what TextArena calls an invalid move is a move that loses; how its reason begins."""
COPIED = frozenset({"RushHour", "Sokoban", "Sudoku"})
"""Slow games whose beginning is copied faster than made again."""
NEEDED = {name: re.compile(r"\[(up|down|left|right|w|a|s|d)\]", re.IGNORECASE) for name in ("Snake", "Surround")}
"""Games that punish a move without this by death instead of calling it invalid."""


class MoveRefused(BaseException):
    """TextArena calls a move invalid; the message is its reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What there is to know before a move."""

    seat: int
    news: str
    moves: list[str] | None
    """The legal moves; None where they cannot be listed."""


class Environment:
    """A game of TextArena that can be begun any number of times."""

    def __init__(self, make: Callable[[], Any], *, game: str, players: int, wrappers: tuple[type, ...]) -> None:
        self._make = make
        self._beginning: tuple[int, Any, Random] | None = None
        self._game = game
        self._players = players
        self._wrappers = wrappers
        self._env: Any = None
        self._dice = Random(0)
        self._format: list[Any] = []
        self._is_over = False
        self._refusal = ""

    @property
    def is_duel(self) -> bool:
        """Whether TextArena counts it as won by one of two players and lost by the other."""
        return type(self._env.state).__name__ == "TwoPlayerState"

    def begin(self, seed: int) -> None:
        """Begin a new game."""
        if self._beginning is not None and self._beginning[0] == seed:
            self._env, self._dice = deepcopy(self._beginning[1:])
        else:
            self._begin(seed)
            self._beginning = (seed, *deepcopy((self._env, self._dice))) if self._game in COPIED else None
        self._is_over = bool(self._env.state.done)
        self._format = [wrapper(self._env) for wrapper in self._wrappers if hasattr(wrapper, "action")]
        self._env.state.set_invalid_move = self._refuse
        _mend(self._env.state)

    def look(self) -> Turn | None:
        """Whose turn it is; None when the game is over. Once after each move: TextArena tells its messages once."""
        moves = None if self._is_over else legal_moves(self._game, self._env)
        if moves == [] and self.is_duel:
            self._lose()
        if self._is_over:
            return None
        with throwing(self._dice):
            seat, messages = self._env.get_observation()
        news = tell(self._wrappers, messages, seat, self._env.state.role_mapping)
        return Turn(seat=seat, news=news, moves=moves)

    def step(self, move: str) -> None:
        """Make a move of whoever acts."""
        needed = NEEDED.get(self._game)
        for wrapper in self._format:
            move = wrapper.action(move)
        if needed and not needed.search(move):
            raise MoveRefused("the move names no direction, such as [up]")
        self._refusal = ""
        with throwing(self._dice):
            is_over, _ = self._env.step(action=move)
        if self._refusal:
            raise MoveRefused(self._refusal)
        self._is_over = bool(is_over or self._env.state.done)

    def rewards(self) -> list[float]:
        """What each player got in the end."""
        rewards, _ = self._env.close()
        return [float((rewards or {}).get(seat, 0.0)) for seat in range(self._players)]

    def board(self) -> str:
        """The board as TextArena draws it; empty where it does not."""
        draw = getattr(self._env, "get_board_str", None)
        try:
            return str(draw() or "") if draw else ""
        except Exception:  # some of TextArena's drawings do not work
            return ""

    def _lose(self) -> None:
        """Nothing is legal, which TextArena leaves to be found out by invalid moves until they lose the game."""
        state = self._env.state
        state.error_allowance = 0
        type(state).set_invalid_move(state, reason=f"Player {state.current_player_id} has no legal move.")
        self._is_over = bool(state.done)

    def _begin(self, seed: int) -> None:
        seeds = Random(seed)
        for attempt in range(START_ATTEMPTS):
            seed = seeds.getrandbits(31)
            self._dice = Random(seed)
            try:
                with throwing(self._dice):
                    self._env = self._make()
                    self._env.reset(num_players=self._players, seed=seed)
                return
            except (ArithmeticError, LookupError, RuntimeError, ValueError):
                if attempt == START_ATTEMPTS - 1:
                    raise

    def _refuse(self, *parts: Any, **named: Any) -> None:
        texts = [part for part in (*parts, *named.values()) if isinstance(part, str)]
        reason = " ".join(texts[0].split()) if texts else "an invalid move"
        loss = LOSSES.get(self._game)
        if loss and reason.startswith(loss):
            self._env.state.set_outcome(reward=float(named.get("reward", 0.0)), reason=reason)
            return
        self._refusal = reason
        raise MoveRefused(reason)


def _mend(state: Any) -> None:
    """`SinglePlayerState` has no `set_winners`, which the 15-puzzle calls; `TwoPlayerState`'s writes into a dict that
    it does not have."""
    if not hasattr(state, "set_winners"):
        state.set_winners = lambda player_ids, reason: state.set_outcome(reward=1.0, reason=reason)
    if not hasattr(state, "info"):
        state.info = {}


def tell(wrappers: Sequence[type], messages: Sequence[TextMessage], seat: int, roles: Mapping[int, str]) -> str:
    """The new messages to a seat as one text; `roles` are what the players are called."""
    is_alone = not any(player not in (seat, GAME) for player in roles)
    # A slip in one of TextArena's games adds observations whose text is a number.
    heard = [message for message in messages if isinstance(message[1], str)]
    own = [_kind(message) == "PLAYER_ACTION" and (message[0] == seat or is_alone) for message in heard]
    heard = [message for message, is_own in zip(heard, own, strict=True) if not is_own]
    teller = next((TELLERS[wrapper.__name__] for wrapper in wrappers if wrapper.__name__ in TELLERS), _everything)
    told = teller(heard, roles) or _everything(heard, roles)
    return "\n".join(text.strip() for text in told if text.strip()) or NOTHING_NEW


def _everything(messages: Sequence[TextMessage], roles: Mapping[int, str]) -> list[str]:
    speakers = {**roles, GAME: "GAME"}
    return [f"[{speakers.get(player, f'Player {player}')}] {text.strip()}" for player, text, _ in messages]


def _everything_with_last_board(messages: Sequence[TextMessage], roles: Mapping[int, str]) -> list[str]:
    return _everything(_without_old_boards(messages), roles)


def _game_messages(messages: Sequence[TextMessage], roles: Mapping[int, str]) -> list[str]:
    return [message[1] for message in messages if _kind(message) not in ("PLAYER_ACTION", "GAME_ADMIN")]


def _game_messages_with_last_board(messages: Sequence[TextMessage], roles: Mapping[int, str]) -> list[str]:
    last_board_last = sorted(_without_old_boards(messages), key=lambda message: _kind(message) == "GAME_BOARD")
    return _game_messages(last_board_last, roles)


def _last_board(messages: Sequence[TextMessage], roles: Mapping[int, str]) -> list[str]:
    shown = _without_old_boards(messages)
    return [message[1] for message in shown if _kind(message) in ("PROMPT", "GAME_BOARD")]


def _without_old_boards(messages: Sequence[TextMessage]) -> list[TextMessage]:
    boards = [number for number, message in enumerate(messages) if _kind(message) == "GAME_BOARD"]
    old = set(boards[:-1])
    return [message for number, message in enumerate(messages) if number not in old]


def _kind(message: TextMessage) -> str:
    return str(getattr(message[2], "name", ""))


TELLERS: dict[str, Teller] = {
    "GameBoardObservationWrapper": _last_board,
    "GameMessagesAndCurrentBoardObservationWrapper": _game_messages_with_last_board,
    "GameMessagesObservationWrapper": _game_messages,
    "LLMObservationWrapper": _everything,
    "SettlersOfCatanObservationWrapper": _everything_with_last_board,
}
"""By the name of TextArena's wrapper."""
