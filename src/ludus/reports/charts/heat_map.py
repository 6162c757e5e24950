"""A heat map: a colour for each cell, and what it stands for written into it. The one for payoffs and for shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ludus.league.payoffs.normal_form import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

CELL = 0.62
"""Width and height of a cell with writing, in inches."""
NAME = 0.085
"""Width of a character of a name, in inches."""
_UPRIGHT = 3
"""Characters of a name up to which it need not be turned."""
_SIZES = {1: (10.0,), 2: (10.0, 6.5), 3: (9.0, 6.2, 6.2)}
_PLACES = {1: (0.0,), 2: (-0.1, 0.27), 3: (-0.22, 0.1, 0.32)}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """What is drawn. `values` is `[rows, columns]`, NaN where there is nothing."""

    values: Array
    rows: Sequence[str]
    columns: Sequence[str]
    lowest: float
    highest: float
    shades: str = "PuOr_r"
    """Of a map with two ends, white is in the middle."""
    words: Callable[[int, int], Sequence[str]] | None = None
    """Up to three lines for a cell, the first large; empty ones are left out."""
    nothing: str = "#eeeeee"
    """The colour of cells without a value."""
    square: bool = True


def room_for_names(names: Sequence[str]) -> float:
    """What names beside a map take, in inches."""
    return NAME * max((len(name) for name in names), default=0)


def draw_heat_map(axes: Axes, heat_map: HeatMap) -> AxesImage:
    """Draw it; what is returned is for a colour bar."""
    from matplotlib import colormaps

    shades = colormaps[heat_map.shades].with_extremes(bad=heat_map.nothing)
    picture = axes.imshow(
        np.ma.masked_invalid(heat_map.values),
        cmap=shades,
        vmin=heat_map.lowest,
        vmax=heat_map.highest,
        aspect="equal" if heat_map.square else "auto",
        interpolation="nearest",
    )
    _name_edges(axes, heat_map)
    if heat_map.words is not None:
        for row, column in zip(*np.nonzero(np.isfinite(heat_map.values)), strict=True):
            value = float(heat_map.values[row, column])
            red, green, blue, _ = shades((value - heat_map.lowest) / (heat_map.highest - heat_map.lowest))
            dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.55
            lines = [line for line in heat_map.words(int(row), int(column)) if line]
            _write(axes, int(row), int(column), lines, "white" if dark else "black")
    return picture


def _name_edges(axes: Axes, heat_map: HeatMap) -> None:
    rows, columns = len(heat_map.rows), len(heat_map.columns)
    turned = 90 if max((len(name) for name in heat_map.columns), default=0) > _UPRIGHT else 0
    axes.set_xticks(range(columns), heat_map.columns, rotation=turned, fontsize=9)
    axes.set_yticks(range(rows), heat_map.rows, fontsize=9)
    if heat_map.square:
        axes.set_xticks(np.arange(0.5, columns - 1), minor=True)
        axes.set_yticks(np.arange(0.5, rows - 1), minor=True)
        axes.grid(which="minor", color="white", lw=1.5)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)


def _write(axes: Axes, row: int, column: int, lines: Sequence[str], colour: str) -> None:
    for line, size, place in zip(lines, _SIZES.get(len(lines), ()), _PLACES.get(len(lines), ()), strict=True):
        text = axes.text(column, row + place, line, ha="center", va="center", fontsize=size, color=colour)
        text.set_in_layout(False)  # it lies inside: asking thousands of them where takes seconds
