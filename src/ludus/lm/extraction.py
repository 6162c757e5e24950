"""Finds the move in what a language model wrote: `whole`, `boxed`, `bracket`, `last_line`, `choice`, `regex:...`.

Invariant: the same reply and moves give the same result in bounded time, whatever the reply holds: only its last
`MAX_REPLY_CHARS` are read. A move that is one of the legal moves is given as the game writes it; whether any other is
allowed is for the game to say. Add a way to `WAYS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from ludus.errors import ConfigError
from ludus.games.move_text import find_move
from ludus.lm.linear_regex import compile_pattern

MAX_REPLY_CHARS = 65_536
REGEX = "regex:"

_BRACKET = re.compile(r"\[([^\[\]]*)\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extracted:
    """What was found in a reply."""

    move: str
    """Empty when nothing was found."""
    format_ok: bool
    """Whether the reply had the form that was asked for; the move may still be illegal."""


Way = Callable[[str, Sequence[str] | None], str | None]
"""Gives the move in a reply, None when the reply does not have the form."""


def extract(how: str, reply: str, moves: Sequence[str] | None) -> Extracted:
    """Find the move in a reply; `moves` are the legal ones where the game can list them."""
    found = (_way(how)(reply[-MAX_REPLY_CHARS:], moves) or "").strip()
    if not found:
        return Extracted(move="", format_ok=False)
    number = None if moves is None else find_move(found, moves)
    return Extracted(move=found if moves is None or number is None else moves[number], format_ok=True)


def check_extraction(how: str) -> None:
    """Raise `ConfigError` when there is no such way to find a move."""
    _way(how)


def _way(how: str) -> Way:
    if how.startswith(REGEX):
        pattern = compile_pattern(how.removeprefix(REGEX))
        return lambda reply, moves: pattern.last(reply)
    if how not in WAYS:
        names = [*WAYS, f"{REGEX}..."]
        nearest = get_close_matches(how, names, n=1, cutoff=0.5) or names
        raise ConfigError(f"action {how!r}: no such way to find a move; did you mean {' or '.join(nearest)}?")
    return WAYS[how]


def _whole(reply: str, moves: Sequence[str] | None) -> str | None:
    return reply


def _boxed(reply: str, moves: Sequence[str] | None) -> str | None:
    """What is inside the last complete \\boxed{...}, with braces inside it."""
    end = len(reply)
    while (start := reply.rfind("\\boxed{", 0, end)) >= 0:
        inside = _inside_braces(reply[start + len("\\boxed{") : end])
        if inside is not None:
            return inside
        end = start
    return None


def _inside_braces(text: str) -> str | None:
    depth = 1
    for place, sign in enumerate(text):
        depth += (sign == "{") - (sign == "}")
        if depth == 0:
            return text[:place]
    return None


def _bracket(reply: str, moves: Sequence[str] | None) -> str | None:
    """What is inside the last [...], with the brackets where the game writes its moves so."""
    end = reply.rfind("]")
    start = reply.rfind("[", 0, max(end, 0))
    match = _BRACKET.fullmatch(reply, start, end + 1) if 0 <= start < end else None
    if match is None:
        return None
    is_written_so = moves is not None and find_move(match[0], moves) is not None
    return match[0] if is_written_so else match[1]


def _last_line(reply: str, moves: Sequence[str] | None) -> str | None:
    lines = reply.split("\n")
    return next((line for line in reversed(lines) if line.strip()), None)


def _choice(reply: str, moves: Sequence[str] | None) -> str | None:
    """The legal move that is named last, as a word of its own; of several that end there, the longest."""
    if moves is None:
        raise ConfigError("action 'choice': this game cannot list its moves; choose another way to find a move")
    folded = reply.casefold()
    ends = ((_last_end(folded, move.casefold()), len(move), move) for move in moves)
    end, _, move = max(ends, default=(-1, 0, ""))
    return move if end >= 0 else None


def _last_end(text: str, word: str) -> int:
    """Where the last occurrence of the word ends that no letter or digit touches; -1 when there is none."""
    start = text.rfind(word)
    while start >= 0:
        end = start + len(word)
        before, after = text[start - 1 : start], text[end : end + 1]
        is_joined = (before.isalnum() and word[0].isalnum()) or (after.isalnum() and word[-1].isalnum())
        if not is_joined:
            return end
        start = text.rfind(word, 0, end - 1)
    return -1


WAYS: dict[str, Way] = {
    "boxed": _boxed,
    "bracket": _bracket,
    "choice": _choice,
    "last_line": _last_line,
    "whole": _whole,
}
