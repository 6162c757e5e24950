"""Numbers, bars and curves as text. Invariant: everything can be told apart without colour."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from ludus.reports.number_text import clean

FULL, REST = "█", "░"
SPARKS = "▁▂▃▄▅▆▇█"
HEAT = " ·░▒▓█"


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
