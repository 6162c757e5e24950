"""Moves as short words, and back: how a legal move is written, and which one a text means.

Invariant: the words of a position are distinct, and each means exactly the move it was made for. What somebody writes
may differ in case and spaces as long as only one legal move is meant.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

_SEAT_MARK = re.compile(
    r"\[P\d+\]|Pl\d+: |Player:? \d+ (?:Action: )?|player=\d+ move=|p\d+:|P\d+(?=\()"  # who moves, spelt out
    r"|[xo](?=\()|[BWXO] (?=\S)"  # the mover's stone
    r"|\d+ - |, "  # the number of the action; a stray separator
)
_IN_PARENTHESES = re.compile(r"\(([^()]*)\)")


def find_move(text: str, moves: Sequence[str]) -> int | None:
    """Which of the moves a text means: the same text, or the only one that differs in case and spaces alone."""
    wanted = text.strip()
    if wanted in moves:
        return moves.index(wanted)
    folded = fold(wanted)
    alike = [number for number, move in enumerate(moves) if fold(move) == folded]
    return alike[0] if len(alike) == 1 else None


def fold(text: str) -> str:
    """The text without spaces and case."""
    return "".join(text.split()).casefold()


def shorten(names: Sequence[str], *, stones: str = "") -> list[str]:
    """Distinct words for the moves that a game names: without who moves and enclosing parentheses, where that is
    unambiguous. `stones` are letters that stand for the mover at the start of every name."""
    full = distinct([" ".join(name.split()) or "-" for name in names])
    short = [_shortened(name, stones) for name in full]
    return short if all(short) and len(set(map(fold, short))) == len(set(map(fold, full))) else full


def distinct(names: Sequence[str]) -> list[str]:
    """The names, with a number after those that are not the only one of their kind."""
    counts = Counter(names)
    return [name if counts[name] == 1 else f"{name} #{number}" for number, name in enumerate(names)]


def _shortened(name: str, stones: str) -> str:
    if stones and name[:1] in stones:
        name = name[1:]
    elif mark := _SEAT_MARK.match(name):
        name = name[mark.end() :]
    inside = _IN_PARENTHESES.fullmatch(name)
    return inside[1] if inside else name


def listed(moves: Iterable[str], *, most: int) -> str:
    """The moves in one line, the first `most` of them."""
    every = list(moves)
    shown = " ".join(every[:most]) if all(" " not in move for move in every[:most]) else " | ".join(every[:most])
    return shown if len(every) <= most else f"{shown} ... ({len(every)} in all)"
