"""What an engine says, as records: options, lines of analysis, the best move.

Invariant: nothing here raises on what an engine wrote. What cannot be read is skipped, as the UCI protocol asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MOVE = re.compile(r"[a-h][1-8][a-h][1-8][qrbn]?")
NUMBERS = {"depth": "depth", "nodes": "nodes", "multipv": "rank"}
MATE_CP = 100_000
"""What a mate counts in centipawns, less its distance."""
MOST_CP = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """What an engine can be told with `setoption`."""

    name: str
    kind: str
    """`check`, `spin`, `combo`, `button` or `string`."""
    default: str = ""
    low: int | None = None
    high: int | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One variation, from the side to move's view."""

    moves: tuple[str, ...]
    rank: int = 1
    """1 is the best."""
    cp: int | None = None
    mate: int | None = None
    """Moves to mate; negative when the side to move is mated."""
    wdl: tuple[int, int, int] | None = None
    """Per mille."""
    depth: int = 0
    nodes: int = 0
    is_bound: bool = False
    """Whether the score is only a bound."""

    @property
    def score(self) -> float | None:
        """Centipawns, with mates beyond all of them; None when the engine gave no score."""
        if self.mate is not None:
            return float(MATE_CP - self.mate if self.mate > 0 else -MATE_CP - self.mate)
        return None if self.cp is None else float(self.cp)


def parse_option(text: str) -> Option | None:
    """What stands after `option `; None when it makes no sense."""
    match = re.fullmatch(r"name\s+(.+?)\s+type\s+(check|spin|combo|button|string)\b(.*)", text.strip())
    if match is None:
        return None
    name, kind, rest = match[1], match[2], match[3]
    bounds = [_integer(found[1]) if (found := re.search(rf"\b{word}\s+(-?\d+)", rest)) else None for word in _BOUNDS]
    default = re.search(r"\bdefault(?:\s+(.*?))?(?=\s+(?:min|max|var)\b|$)", rest)
    choices = tuple(choice.strip() for choice in re.findall(r"\bvar\s+(.+?)(?=\s+var\b|$)", rest))
    words = (default[1] or "") if default else ""
    return Option(name=name, kind=kind, default=words, low=bounds[0], high=bounds[1], choices=choices)


_BOUNDS = ("min", "max")


def parse_info(text: str) -> Line | None:
    """What stands after `info `; None when it has no variation or makes no sense."""
    words = text.split()
    if "pv" not in words or words[0] == "string":
        return None
    place = words.index("pv")
    moves = tuple(_moves(words[place + 1 :]))
    if not moves:
        return None
    facts: dict[str, int] = {}
    cp, mate, is_bound = None, None, False
    wdl = None
    for at, word in enumerate(words[:place]):
        if word in NUMBERS and (number := _integer(_at(words, at + 1))) is not None:
            facts[NUMBERS[word]] = max(number, 0)
        elif word == "score":
            value = _integer(_at(words, at + 2))
            cp = value if _at(words, at + 1) == "cp" else None
            mate = value if _at(words, at + 1) == "mate" else None
        elif word == "wdl":
            wdl = _wdl([_integer(_at(words, at + offset)) for offset in (1, 2, 3)])
        elif word in ("lowerbound", "upperbound"):
            is_bound = True
    if cp is not None:
        cp = max(-MOST_CP, min(MOST_CP, cp))
    return Line(moves=moves, cp=cp, mate=mate or None, wdl=wdl, is_bound=is_bound, **facts)


def parse_best(text: str) -> str | None:
    """The move after `bestmove `; None when there is none (`(none)`, `0000`) or no move stands there."""
    words = text.split()
    return words[0] if words and MOVE.fullmatch(words[0]) else None


def _moves(words: Sequence[str]) -> Iterator[str]:
    for word in words:
        if not MOVE.fullmatch(word):
            return
        yield word


def _wdl(numbers: Sequence[int | None]) -> tuple[int, int, int] | None:
    known = [number for number in numbers if number is not None and 0 <= number <= 1000]
    return (known[0], known[1], known[2]) if len(known) == 3 and abs(sum(known) - 1000) <= 2 else None


def _at(words: Sequence[str], place: int) -> str:
    return words[place] if place < len(words) else ""


def _integer(text: str) -> int | None:
    """A number of at most 18 digits: what an engine writes may be longer than Python converts."""
    return int(text) if re.fullmatch(r"-?\d{1,18}", text, flags=re.ASCII) else None
