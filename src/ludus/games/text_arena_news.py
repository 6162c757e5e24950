"""What a seat is told of TextArena's messages: as much as the wrappers of the game's id would show, once each.

TextArena repeats all that was said before every move; a conversation has it already, so only what is new is told. A
seat's own words are never told back to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

TextMessage = tuple[int, str, Any]
"""Who speaks (-1 is the game), what, and TextArena's `ObservationType`."""

GAME = -1
NOTHING_NEW = "It is your turn."

Teller = Callable[[Sequence[TextMessage], Mapping[int, str]], list[str]]


def tell(wrappers: Sequence[type], messages: Sequence[TextMessage], seat: int, roles: Mapping[int, str]) -> str:
    """The new messages to a seat as one text; `roles` are what the players are called."""
    is_alone = not any(player not in (seat, GAME) for player in roles)
    # A slip in one of TextArena's games adds observations whose text is a number.
    heard = [message for message in messages if isinstance(message[1], str)]
    heard = [message for message in heard if not _is_own_move(message, seat, is_alone=is_alone)]
    told = _teller(wrappers)(heard, roles) or _everything(heard, roles)
    return "\n".join(text.strip() for text in told if text.strip()) or NOTHING_NEW


def _is_own_move(message: TextMessage, seat: int, *, is_alone: bool) -> bool:
    return _kind(message) == "PLAYER_ACTION" and (message[0] == seat or is_alone)


def _teller(wrappers: Sequence[type]) -> Teller:
    return next((TELLERS[wrapper.__name__] for wrapper in wrappers if wrapper.__name__ in TELLERS), _everything)


def _everything(messages: Sequence[TextMessage], roles: Mapping[int, str]) -> list[str]:
    return [f"[{_speaker(message, roles)}] {message[1].strip()}" for message in messages]


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


def _speaker(message: TextMessage, roles: Mapping[int, str]) -> str:
    return "GAME" if message[0] == GAME else roles.get(message[0], f"Player {message[0]}")


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
