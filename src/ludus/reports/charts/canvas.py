"""What all pictures of a league are drawn on, and how they become files.

Drawn without a display and without pyplot's global state; matplotlib is imported when a picture is asked for.
Invariant: equal figures give equal bytes, as PNG and as SVG.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ludus.storage.atomic import ensure_directory, write_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Form = Literal["png", "svg"]
FORMS: tuple[Form, ...] = ("png", "svg")
FAINT = "#757575"
_NOTE_LINE = 11.5
"""Height of a line below a headline, in points."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Safe for colour-blind readers."""


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
