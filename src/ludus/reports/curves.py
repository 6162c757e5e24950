"""What metrics did over the steps of runs, as a picture.

One run: one panel for each unit, one line for each metric in its 95 % interval, where one is known. Several: one panel
for each metric, one line for each label, which is the mean of its runs in a band from the least to the most of them.

Drawn without a display and without pyplot's global state; matplotlib is imported when a picture is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatch
from functools import lru_cache
from io import BytesIO
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from ludus.reports.charts.canvas import COLOURS, new_figure
from ludus.storage.jsonl import read_jsonl

DEFAULT = (
    "evaluate/*/score",
    "evaluate/*/success",
    "evaluate/invalid_moves",
    "evaluate/return",
    "psro/nash_conv*",
)
"""And the return instead of the score where a game pays more than win or lose."""
SHARES = ("*/score", "*/success", "*/pass@*", "*invalid_moves", "*/wins", "*/draws", "*_fraction", "*/policy_top1")
"""Metrics that lie between 0 and 1 are shown as percentages."""
RARITIES = ("*invalid_moves",)
"""Of these, those that are near 0 when all is well: each has a panel of its own, or it would lie on the axis."""
VANISHING = ("*/nash_conv", "*/nash_conv_bound")
"""Metrics that fall towards 0 over powers of ten: on a logarithmic scale, and each in a panel of its own."""
_HALF = 0.5
_Z95 = 1.959964
_MARKERS = "osD^vP"

Curve = list[tuple[float, float]]
Band = list[tuple[float, float, float]]
"""(step, low, high) of a 95 % interval."""


def read_curves(metrics: Path, patterns: Sequence[str] = DEFAULT) -> dict[str, Curve]:
    """(step, value) of every metric whose name matches one of the patterns, in the order of the file."""
    curves: dict[str, Curve] = {}
    for line in read_jsonl(metrics):
        for name, value in line.items():
            shown = headline(name, line) if patterns is DEFAULT else name
            if isinstance(value := line[shown], int | float) and matches(name, patterns):
                curves.setdefault(shown, []).append((float(line["step"]), float(value)))
    return curves


def read_bands(metrics: Path, names: Iterable[str]) -> dict[str, Band]:
    """The 95 % interval of every point of these metrics whose line tells how much it is of."""
    bands: dict[str, Band] = {}
    wanted = list(names)
    for line in read_jsonl(metrics):
        for name in wanted:
            if isinstance(line.get(name), int | float) and (found := interval(name, line)) is not None:
                bands.setdefault(name, []).append((float(line["step"]), *found))
    return bands


def interval(name: str, line: Mapping[str, Any]) -> tuple[float, float] | None:
    """The 95 % interval of a mean: as it was measured, or Wilson's of a score over games or a success over tasks."""
    value, path = float(line[name]), name.rpartition("/")[0]
    if isinstance(margin := line.get(f"{name}_ci95"), int | float):
        return value - margin, value + margin
    count = None
    if name.endswith("/score"):
        count = line.get(f"{path}/games")
    elif name.endswith("/success"):
        count = line.get(f"{path.removesuffix('/sampled')}/tasks")
    elif name.endswith("/policy_top1"):
        count = line.get(f"{path}/rows")
    if not isinstance(count, int | float) or count <= 0:
        return None
    square = _Z95**2 / count
    middle, half = value + square / 2, _Z95 * sqrt(value * (1 - value) / count + square / (4 * count))
    return (middle - half) / (1 + square), (middle + half) / (1 + square)


def headline(name: str, line: Mapping[str, Any]) -> str:
    """The metric to show for a score."""
    path = name.removesuffix("/score")
    return f"{path}/return" if f"{path}/by_return" in line else name


def draw_curves(
    curves: Mapping[str, Curve],
    title: str,
    *,
    bands: Mapping[str, Band] | None = None,
    labels: Mapping[str, str] | None = None,
    apart: bool = False,
    form: str = "png",
) -> bytes:
    """The metrics of one run with the intervals of those that have one, as PNG or SVG.

    Args:
        labels: what people read in place of a metric's name.
        apart: a panel for each metric, on its own scale.
    """
    panels = [[name] for name in curves] if apart else _panels(curves)
    figure, all_axes = _make_panels(len(panels))
    for axes, names in zip(all_axes, panels, strict=False):
        for place, name in enumerate(names):
            steps, values = zip(*curves[name], strict=True)
            label, band = (labels or {}).get(name, name), (bands or {}).get(name)
            axes.plot(steps, values, label=f"{label} (95 %)" if band else label, **_line(place))
            if band:
                _draw_band(axes, band, place)
        _finish_panel(axes, names[0], is_alone=apart)
    return _render(figure, title, form)


def draw_labelled(runs: Mapping[str, Sequence[Mapping[str, Curve]]], title: str, *, form: str = "png") -> bytes:
    """The metrics of several runs by label, as PNG or SVG."""
    names = list(dict.fromkeys(name for several in runs.values() for curves in several for name in curves))
    figure, all_axes = _make_panels(len(names))
    for axes, name in zip(all_axes, names, strict=False):
        for place, (label, several) in enumerate(runs.items()):
            curves = [curves[name] for curves in several if name in curves]
            if not curves:
                continue
            steps, values = align(curves)
            count = f" ({len(curves)} runs)" if len(curves) > 1 else ""
            axes.plot(steps, values.mean(axis=0), label=f"{label}{count}", **_line(place))
            colour = COLOURS[place % len(COLOURS)]
            axes.fill_between(steps, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.15, linewidth=0)
        _finish_panel(axes, name)
        axes.set_ylabel(name)
    return _render(figure, title, form)


def _draw_band(axes: Any, band: Band, place: int) -> None:
    """A shade along the curve, and a line at each point, which is all that there is of a single one."""
    steps, low, high = (np.array(column) for column in zip(*band, strict=True))
    colour = COLOURS[place % len(COLOURS)]
    axes.fill_between(steps, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.vlines(steps, low, high, color=colour, linewidth=1)


def align(curves: Sequence[Curve]) -> tuple[Any, Any]:
    """The steps of the first curve, from where all of them have begun to where the first of them ends, and the values
    of each there, between its points if need be."""
    begin, end = max(curve[0][0] for curve in curves), min(curve[-1][0] for curve in curves)
    steps = np.unique([min(max(step, begin), max(begin, end)) for step, _ in curves[0]])
    return steps, np.array([np.interp(steps, *np.array(curve).T) for curve in curves])


def _make_panels(count: int) -> tuple[Any, Any]:
    figure = new_figure(7.2, 0.8 + 2.6 * max(count, 1))
    return figure, figure.subplots(max(count, 1), squeeze=False)[:, 0]


def _line(place: int) -> dict[str, Any]:
    colour, marker = COLOURS[place % len(COLOURS)], _MARKERS[place % len(_MARKERS)]
    return {"color": colour, "marker": marker, "markersize": 4, "linewidth": 1.5}


def _finish_panel(axes: Any, name: str, *, is_alone: bool = False) -> None:
    from matplotlib.ticker import EngFormatter, PercentFormatter

    if matches(name, SHARES):
        low = 0.0 if axes.dataLim.ymin < _HALF else _HALF
        axes.set_ylim(*((0.0, None) if is_alone or matches(name, RARITIES) else (low - 0.02, 1.02)))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    if matches(name, VANISHING) and axes.dataLim.minposy < float("inf"):
        axes.set_yscale("log")
    axes.xaxis.set_major_formatter(EngFormatter())
    axes.set_xlabel("generation" if name.startswith("psro/") else "steps")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)


def _render(figure: Any, title: str, form: str) -> bytes:
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    out = BytesIO()
    figure.savefig(out, format=form)
    return out.getvalue()


def _panels(curves: Iterable[str]) -> list[list[str]]:
    names = list(curves)
    shares = [name for name in names if matches(name, SHARES) and not matches(name, RARITIES)]
    return [*([shares] if shares else []), *([name] for name in names if name not in shares)]


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether one of the patterns is that of the metric."""
    return _matches(name, tuple(patterns))


@lru_cache(maxsize=20_000)
def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)
