"""What all pictures of a league are drawn on, heat maps among them, and how they become files.

Drawn without a display and without pyplot's global state; matplotlib is imported when a picture is asked for.
Invariant: equal figures give equal bytes, as PNG and as SVG.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from ludus.league.payoffs.normal_form import Array
from ludus.storage.atomic import ensure_directory, write_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

Form = Literal["png", "svg"]
FORMS: tuple[Form, ...] = ("png", "svg")
FAINT = "#757575"
_NOTE_LINE = 11.5
"""Height of a line below a headline, in points."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Safe for colour-blind readers."""
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
    """A colour for each cell, and what it stands for written into it."""

    values: Array
    """`[rows, columns]`, NaN where there is nothing."""
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


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def set_title(axes: Axes, title: str, note: str = "") -> None:
    """A headline, and below it what is to be known of the picture."""
    lines = note.count("\n") + 1 if note else 0
    axes.set_title(title, loc="left", fontsize=12, pad=10 + _NOTE_LINE * lines)
    if note:
        axes.annotate(
            note, (0, 1), xycoords="axes fraction", xytext=(0, 7), textcoords="offset points", va="bottom",
            fontsize=8.5, color=FAINT, annotation_clip=False,
        )  # fmt: skip


def leave_empty(figure: Figure, title: str, message: str) -> Figure:
    """Say that there is nothing to see yet."""
    axes = figure.subplots()
    axes.set_axis_off()
    set_title(axes, title)
    axes.text(0.5, 0.5, message, ha="center", va="center", color=FAINT, transform=axes.transAxes)
    return figure


def hide_frame(axes: Axes) -> None:
    """Leave the lower edge alone, and faint lines across."""
    axes.set_axisbelow(True)
    for edge in ("top", "right", "left"):
        axes.spines[edge].set_visible(False)
    axes.tick_params(axis="y", length=0)


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


def render(figure: Figure, form: Form = "png") -> bytes:
    """The picture as a file's content."""
    import matplotlib

    if figure.get_layout_engine() is not None:
        figure.draw_without_rendering()  # once for all forms: finding the layout is what takes time
        figure.set_layout_engine("none")
    content = BytesIO()
    metadata = {"Date": None} if form == "svg" else None
    with matplotlib.rc_context({"svg.hashsalt": "ludus"}):
        figure.savefig(content, format=form, facecolor="white", bbox_inches="tight", pad_inches=0.15, metadata=metadata)
    return content.getvalue()


def save_pictures(folder: Path, figures: Mapping[str, Figure]) -> list[Path]:
    """Write every figure under its name in every form; returns where they are."""
    ensure_directory(folder)
    paths = []
    for name, figure in figures.items():
        for form in FORMS:
            path = folder / f"{name}.{form}"
            write_bytes(path, render(figure, form))
            paths.append(path)
    return paths
