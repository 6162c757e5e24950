"""Curves in one line of text."""

from __future__ import annotations

import math
from collections.abc import Sequence

SPARKS = "▁▂▃▄▅▆▇█"


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
