"""Numbers, bars and curves as text. Invariant: everything can be told apart without colour."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.text import Text

FULL, REST = "█", "░"
EIGHTHS = " ▏▎▍▌▋▊▉"
SPARKS = "▁▂▃▄▅▆▇█"
HEAT = " ·░▒▓█"
_ABBREVIATIONS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def clean(text: str) -> str:
    """One line of text without anything that a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else " " if each.isspace() else "�" for each in text.expandtabs(4))


def short(number: float) -> str:
    """A number in at most six characters: 12, 0.153, 12.3k, 4.56M, -1.2e-5."""
    if isinstance(number, int) and abs(number) > 1e300:
        return "–"
    if not math.isfinite(number):
        return "–"
    size = abs(number)
    if size >= 1e15:
        return f"{number:.0e}".replace("e+", "e")
    for scale, letter in _ABBREVIATIONS:
        if size >= scale * (10 if letter == "k" else 1):
            return f"{_three(number / scale)}{letter}"
    if number == int(number):
        return f"{int(number)}"
    if size < 1e-3:
        return f"{number:.0e}".replace("e-0", "e-")
    return _three(number)


def _three(number: float) -> str:
    size = abs(number)
    digits = 0 if size >= 99.95 else 1 if size >= 9.995 else 2 if size >= 0.9995 else 3
    return f"{number:.{digits}f}"


def duration(seconds: float) -> str:
    """0:07, 12:34, 3:07:12, 5d 03:07."""
    whole = max(0, int(min(seconds, 1e9)))
    minutes, secs = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d {hours:02d}:{minutes:02d}"
    return f"{hours}:{minutes:02d}:{secs:02d}" if hours else f"{minutes}:{secs:02d}"


def percent(share: float) -> str:
    """A share in at most four characters."""
    return f"{min(max(share, 0.0), 9.99):.0%}"


def share_of(part: float, whole: float) -> float:
    """How much of something there is; 0 where there is nothing it could be of."""
    try:
        return part / whole if whole > 0 else 0.0
    except OverflowError:
        return 1.0


def bar(share: float, width: int, style: str = "cyan") -> Text:
    """A bar filled to a share of its width, with the rest shown as such."""
    share = _clamped(share)
    filled = min(int(share * width + 0.5), width)
    if share >= 0.005 and not filled:
        filled = min(1, width)
    return Text.assemble((FULL * filled, style), (REST * (width - filled), "dim"))


def _clamped(share: float) -> float:
    return min(max(share, 0.0), 1.0) if math.isfinite(share) else 0.0


def spread(low: float, high: float, width: int) -> Text:
    """A bar that is sure up to a share, and uncertain up to another."""
    sure = int(_clamped(low) * width + 0.5)
    likely = max(int(_clamped(high) * width + 0.5), sure + (sure < width))
    return Text.assemble((FULL * sure, "cyan"), ("▒" * (likely - sure), "cyan"), (" " * (width - likely), ""))


def sparkline(values: Sequence[float], width: int) -> Text:
    """The newest points as a curve between their least and their greatest; a flat one is in the middle."""
    shown = values[-width:] if width > 0 else []
    if not shown:
        return Text("")
    low, high = min(shown), max(shown)
    if high <= low:
        return Text(SPARKS[3] * len(shown), "cyan")
    steps = [int((value - low) / (high - low) * (len(SPARKS) - 1) + 0.5) for value in shown]
    return Text("".join(SPARKS[step] for step in steps), "cyan")


def fit(text: str, width: int) -> str:
    """Text in exactly so many cells, shortened in the middle where it is too long."""
    text = clean(text)
    if cell_len(text) <= width:
        return set_cell_size(text, max(width, 0))
    if width < 4:
        return set_cell_size(text, max(width, 0))
    back = (width - 1) // 3
    front = set_cell_size(text, width - 1 - back).rstrip()
    tail = text[-back:] if back else ""
    return set_cell_size(f"{front}…{tail}", width)


def wrap(text: str, width: int, indent: int = 0) -> list[str]:
    """Pieces of at most `width` cells, broken at spaces where that costs little; later ones are indented."""
    pieces: list[str] = []
    room = width
    while cell_len(text) > room:
        cut = _cut(text, room)
        pieces.append(text[:cut].rstrip() if not pieces else " " * indent + text[:cut].rstrip())
        text = text[cut:].lstrip(" ")
        room = max(width - indent, 8)
    pieces.append(text if not pieces else " " * indent + text)
    return pieces


def _cut(text: str, room: int) -> int:
    """Where to break: the last space in the second half, or the last character that fits."""
    cut = room
    while cell_len(text[:cut]) > room:
        cut -= 1
    space = text.rfind(" ", max(cut // 2, 1), cut + 1)
    return space if space > 0 else max(cut, 1)
