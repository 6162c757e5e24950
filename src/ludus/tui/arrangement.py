"""Where the panes are. Invariant: they never overlap, and together they fill the screen between head and footer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from textual.geometry import Region

LEAST_WIDTH, LEAST_HEIGHT = 40, 10
"""Below this nothing can be read."""
GRID_WIDTH, GRID_HEIGHT = 110, 34
WIDE_WIDTH, WIDE_HEIGHT = 170, 48

Mode = Literal["too small", "tabs", "grid", "wide"]
Column = Sequence[tuple[str, int]]
"""Panes from top to bottom, each with its share of the height."""

GRID: Sequence[tuple[int, Column]] = (
    (53, (("rooms", 16), ("schedule", 8), ("log", 13))),
    (47, (("training", 15), ("league", 11), ("collection", 11))),
)
WIDE: Sequence[tuple[int, Column]] = (
    (37, (("rooms", 24), ("schedule", 8), ("log", 25))),
    (31, (("training", 38), ("collection", 19))),
    (32, (("league", 36), ("episode", 21))),
)
"""Columns from left to right, each with its share of the width."""
FIXED_HEIGHTS = {"schedule": 8}
"""Panes that always have the same lines; more room would be wasted on them."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Which panes are shown, and where."""

    mode: Mode
    regions: Mapping[str, Region]


def mode_of(width: int, height: int) -> Mode:
    """What a terminal of this size has room for."""
    if width < LEAST_WIDTH or height < LEAST_HEIGHT:
        return "too small"
    if width < GRID_WIDTH or height < GRID_HEIGHT:
        return "tabs"
    return "grid" if width < WIDE_WIDTH or height < WIDE_HEIGHT else "wide"


def arrange(mode: Mode, width: int, height: int, chosen: str, *, is_zoomed: bool) -> Arrangement:
    """Place the panes in an area of this size: one with tabs or when it is zoomed, else the grid of the mode."""
    if mode == "too small":
        return Arrangement(mode, {})
    if mode == "tabs" or is_zoomed:
        return Arrangement(mode, {chosen: Region(0, 0, width, height)})
    columns = WIDE if mode == "wide" else GRID
    regions: dict[str, Region] = {}
    left = 0
    for column_width, column in zip(_split(width, [share for share, _ in columns]), columns, strict=True):
        top = 0
        for (name, _), pane_height in zip(column[1], _heights(height, column[1]), strict=True):
            regions[name] = Region(left, top, column_width, pane_height)
            top += pane_height
        left += column_width
    return Arrangement(mode, regions)


def _heights(height: int, column: Column) -> list[int]:
    fixed = sum(FIXED_HEIGHTS.get(name, 0) for name, _ in column)
    free = iter(_split(height - fixed, [share for name, share in column if name not in FIXED_HEIGHTS]))
    return [FIXED_HEIGHTS.get(name) or next(free) for name, _ in column]


def _split(length: int, shares: Sequence[int]) -> list[int]:
    """Whole parts in the given shares that add up exactly."""
    ends = [round(length * sum(shares[: number + 1]) / sum(shares)) for number in range(len(shares))]
    return [end - begin for begin, end in zip([0, *ends], ends, strict=False)]
