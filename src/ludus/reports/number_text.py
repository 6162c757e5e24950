"""Numbers, durations, curves and foreign text in a few characters, for dashboards and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

_ABBREVIATIONS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
SPARKS = "▁▂▃▄▅▆▇█"


def clean(text: str) -> str:
    """One line of text without anything that a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else " " if each.isspace() else "�" for each in text.expandtabs(4))


def short(number: float) -> str:
    """A number in at most six characters: 12, 0.153, 12.3k, 4.56M, -1.2e-5."""
    if (isinstance(number, int) and abs(number) > 1e300) or not math.isfinite(number):
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


def sparkline(values: Sequence[float], low: float, high: float) -> str:
    """A curve in one line of text."""
    span = max(high - low, 1e-9)
    return "".join(SPARKS[min(int((value - low) / span * len(SPARKS)), len(SPARKS) - 1)] for value in values)


def decades(curve: Sequence[float]) -> list[float]:
    """NashConv as a sparkline can show it: by powers of ten below its highest, one at least and five at most."""
    highest = max(curve)
    lowest = min((value for value in curve if value > 0), default=1.0)
    span = min(max(math.log10(highest / lowest), 1.0), 5.0) if highest > 0 else 1.0
    return [max(math.log10(value / highest) / span + 1, 0.0) if value > 0 else 0.0 for value in curve]


def steps_done(steps: int, total: int, unit: str) -> str:
    """`1,200 of 5,000 steps`; without the total where a run's length is not given in these."""
    return f"{steps:,} of {total:,} {unit}" if total else f"{steps:,} {unit}"
