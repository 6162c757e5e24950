"""What a run's metrics did over its steps, as a picture: one panel for each unit, one line for each metric.

Drawn without a display and without pyplot's global state; matplotlib is imported when a picture is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatch
from io import BytesIO
from pathlib import Path

from ludus.storage.jsonl import read_jsonl

DEFAULT = ("evaluate/*/score", "evaluate/invalid_moves", "evaluate/return")
SHARES = ("*/score", "*invalid_moves", "*/wins", "*/draws", "*_fraction")
"""Metrics that lie between 0 and 1 are shown as percentages."""
RARITIES = ("*invalid_moves",)
"""Of these, those that are near 0 when all is well: each has a panel of its own, or it would lie on the axis."""
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = "osD^vP"

Curve = list[tuple[float, float]]


def read_curves(metrics: Path, patterns: Sequence[str] = DEFAULT) -> dict[str, Curve]:
    """(step, value) of every metric whose name matches one of the patterns, in the order of the file."""
    curves: dict[str, Curve] = {}
    for line in read_jsonl(metrics):
        for name, value in line.items():
            if isinstance(value, int | float) and any(fnmatch(name, pattern) for pattern in patterns):
                curves.setdefault(name, []).append((float(line["step"]), float(value)))
    return curves


def draw_curves(curves: Mapping[str, Curve], title: str, *, form: str = "png") -> bytes:
    """The picture, as PNG or SVG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter, PercentFormatter

    panels = _panels(curves)
    figure = Figure(figsize=(7.2, 0.8 + 2.6 * max(len(panels), 1)), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    for axes, names in zip(figure.subplots(max(len(panels), 1), squeeze=False)[:, 0], panels, strict=False):
        for place, name in enumerate(names):
            steps, values = zip(*curves[name], strict=True)
            colour, marker = _COLOURS[place % len(_COLOURS)], _MARKERS[place % len(_MARKERS)]
            axes.plot(steps, values, color=colour, marker=marker, markersize=4, linewidth=1.5, label=name)
        if _is_share(names[0]):
            axes.set_ylim(*((0.0, None) if _is_rarity(names[0]) else (-0.02, 1.02)))
            axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        axes.xaxis.set_major_formatter(EngFormatter())
        axes.set_xlabel("steps")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=8)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    out = BytesIO()
    figure.savefig(out, format=form)
    return out.getvalue()


def _panels(curves: Iterable[str]) -> list[list[str]]:
    names = list(curves)
    shares = [name for name in names if _is_share(name) and not _is_rarity(name)]
    return [*([shares] if shares else []), *([name] for name in names if name not in shares)]


def _is_share(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in SHARES)


def _is_rarity(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in RARITIES)
