"""A population as two pictures: NashConv over the generations, and the payoffs of those played most as a heat map.

Drawn without a display and without pyplot's global state; matplotlib is imported when a picture is asked for.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

from ludus.league.exact.standing import PopulationStanding

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_CELLS = 24
_NUMBERS_UP_TO = 12
"""Policies of a seat up to which the numbers fit into the cells."""


def nash_conv_png(standing: PopulationStanding, title: str) -> bytes:
    """NashConv of every generation, on a logarithmic scale where it has one."""
    figure, axes = _figure(7.2, 3.6)
    axes.plot(np.arange(len(standing.curve)), standing.curve, color="#0072B2", lw=1.5)
    if (standing.curve > 0).any():
        axes.set_yscale("log")
    axes.set_xlabel("generation")
    axes.set_ylabel("NashConv (exact)")
    axes.grid(alpha=0.3)
    ended = f"{standing.curve[-1]:.4g} after {standing.generation} generations"
    axes.set_title(f"{title}: {ended}", loc="left", fontsize=12)
    return _png(figure)


def payoff_png(standing: PopulationStanding, title: str) -> bytes:
    """What seat 0 gets, by the policies of both seats that are played most."""
    rows, columns = standing.most_played(0, MOST_CELLS), standing.most_played(1, MOST_CELLS)
    block = standing.payoffs[np.ix_(rows, columns)]
    figure, axes = _figure(2.4 + 0.55 * max(len(columns), 4), 1.8 + 0.45 * max(len(rows), 4))
    limit = float(np.abs(block).max()) or 1.0
    picture = axes.imshow(block, cmap="PuOr_r", vmin=-limit, vmax=limit, aspect="auto")
    axes.set_yticks(range(len(rows)), [_label(standing, 0, row) for row in rows], fontsize=8)
    axes.set_xticks(range(len(columns)), [_label(standing, 1, column) for column in columns], rotation=90, fontsize=8)
    if max(block.shape) <= _NUMBERS_UP_TO:
        _write_numbers(axes, block, limit)
    axes.set_ylabel("seat 0 (share)")
    axes.set_xlabel("seat 1 (share)")
    axes.set_title(f"{title}: payoffs of those played most", loc="left", fontsize=12)
    figure.colorbar(picture, ax=axes, label="seat 0 gets")
    return _png(figure)


def _write_numbers(axes: Axes, block: np.ndarray, limit: float) -> None:
    for (row, column), value in np.ndenumerate(block):
        colour = "white" if abs(value) > 0.7 * limit else "black"
        axes.text(column, row, f"{value:+.2f}", ha="center", va="center", fontsize=7, color=colour)


def _label(standing: PopulationStanding, seat: int, place: int) -> str:
    return f"{standing.name(seat, place)} ({standing.weights[seat][place]:.0%})"


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots()


def _png(figure: Figure) -> bytes:
    content = BytesIO()
    figure.savefig(content, format="png", facecolor="white")
    return content.getvalue()
