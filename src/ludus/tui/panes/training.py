"""What the learner does: step, speed, time left, losses by term, and every other metric with its curve."""

from __future__ import annotations

from rich.text import Text

from ludus.config import LOSS_OPTIONS
from ludus.monitor.run_view import RunView
from ludus.reports.number_text import duration, short
from ludus.tui.drawing import sparkline
from ludus.tui.panes.metric_rows import LABELS, heading, row, rows, under
from ludus.tui.panes.spec import PaneSpec

FIRST = ("train/loss", "train/approx_kl", "train/entropy", "train/staleness", "train/updates_behind")
ELSEWHERE = ("explore/", "experience/", "train/", "evaluate/")
"""Shown above, or in the collection pane."""


def draw(view: RunView, width: int) -> list[Text]:
    """Head lines, then the metrics: what learns, how well it plays, everything else."""
    lines = _head(view, width)
    train = [name for name in under(view, "train/") if name not in FIRST]
    terms = [name for name in train if name.removeprefix("train/") in LOSS_OPTIONS]
    lines += rows(view, FIRST[:1], width)
    lines += [row(view, name, width, f"  {name.removeprefix('train/')}") for name in terms]
    lines += rows(view, FIRST[1:], width)
    lines += [
        row(view, name, width, LABELS.get(name, name.removeprefix("train/"))) for name in train if name not in terms
    ]
    measured = under(view, "evaluate/")
    if measured:
        lines += [heading("evaluation", width)]
        lines += [row(view, name, width, name.removeprefix("evaluate/")) for name in measured]
    others = sorted(name for name in view.values if not name.startswith(ELSEWHERE))
    return lines + ([heading("other metrics", width), *rows(view, others, width)] if others else [])


def _head(view: RunView, width: int) -> list[Text]:
    status = view.status
    left = "–" if status.eta_s is None else duration(status.eta_s)
    of = f" of {short(status.total_steps)}" if status.total_steps else ""
    first = f"{status.unit} {short(status.steps)}{of}   update {short(status.update)}   version {short(status.version)}"
    second = Text.assemble(
        f"{short(status.steps_per_s)} {status.unit}/s   left {left}   {short(status.episodes)} episodes"[:width]
    )
    room = width - second.cell_len - 2
    if room >= 8:
        second = Text.assemble(second, "  ", sparkline(view.curve("steps_per_s"), min(room, 40)))
    return [Text(first[:width]), second, Text("")]


TRAINING = PaneSpec(
    name="training",
    title="Training",
    topics=frozenset({"status", "metrics"}),
    draw=draw,
    help=(
        "Step, update and version, speed and time left; then the loss with its terms, KL to the policy that played, "
        "entropy and staleness (versions behind), evaluation scores, and all other metrics by name. Curves run from "
        "their least to their greatest point, the newest at the right. docs/metrics.md says what each metric means."
    ),
)
