"""A learning-rate range test as a picture: the loss over the rate, and the rate that it suggests."""

from __future__ import annotations

from collections.abc import Sequence

from ludus.reports.charts.canvas import COLOURS, FAINT, Form, hide_frame, new_figure, render, set_title


def draw_sweep(
    rates: Sequence[float], losses: Sequence[float], smooth: Sequence[float], suggested: float, *, form: Form = "png"
) -> bytes:
    """Draw the loss of each step, its smoothed course, and the suggestion."""
    figure = new_figure(6.4, 4.0)
    axes = figure.subplots()
    axes.set_xscale("log")
    axes.plot(rates, losses, color=FAINT, lw=0.7, alpha=0.7, label="loss of a step")
    axes.plot(rates, smooth, color=COLOURS[0], lw=2, label="smoothed")
    axes.axvline(suggested, color=COLOURS[1], ls="--", lw=1.2, label=f"suggested: {suggested:g}")
    highest = max(smooth[: max(1, len(smooth) // 4)])
    lowest = min(smooth)
    margin = 0.15 * max(highest - lowest, 1e-9)
    axes.set_ylim(lowest - margin, highest + 4 * margin)
    axes.set_xlabel("learning rate")
    hide_frame(axes)
    axes.legend(frameon=False, fontsize=8.5)
    set_title(axes, "Loss while the learning rate grows")
    return render(figure, form)
