"""What the learner does: how far it is, its cycle, losses by term, and every other metric with its curve."""

from __future__ import annotations

from rich.text import Text

from ludus.config import CHESS_LOSS_OPTIONS, LOSS_OPTIONS
from ludus.monitor.run_view import RunView
from ludus.reports.number_text import duration, percent, share_of, short
from ludus.tui.drawing import LABELS, PaneSpec, bar, fit, heading, row, rows, sparkline, under

FIRST = ("train/loss", "train/approx_kl", "train/entropy", "train/staleness", "train/updates_behind")
ELSEWHERE = ("explore/", "experience/", "train/", "evaluate/", "loader/")
"""Shown above, or in the collection pane."""


def draw(view: RunView, width: int) -> list[Text]:
    """Head lines, then the metrics: what learns, how well it plays, everything else."""
    lines = _head(view, width)
    train = [name for name in under(view, "train/") if name not in FIRST]
    terms = [name for name in train if name.removeprefix("train/") in {**LOSS_OPTIONS, **CHESS_LOSS_OPTIONS}]
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
    title="Training",
    topics=frozenset({"status", "metrics"}),
    draw=draw,
    help=(
        "Step, update and version, speed and time left; then the loss with its terms, KL to the policy that played, "
        "entropy and staleness (versions behind), evaluation scores, and all other metrics by name. Curves run from "
        "their least to their greatest point, the newest at the right. docs/metrics.md says what each metric means."
    ),
)


LABEL, WORDS = 14, 24


def draw_schedule(view: RunView, width: int) -> list[Text]:
    """A line for each bar."""
    status, schedule = view.status, view.status.schedule
    lines = [
        _counted(status.unit, status.steps, status.total_steps, width, "no end is set"),
        _counted("new data", schedule.new_data, schedule.data_to_wait, width, "none is waited for"),
        _counted("updates", schedule.updates, schedule.updates_to_do, width, "no cycles are set"),
        _timed("training time", schedule.training_s, schedule.previous_training_s, width),
        _timed("cycle time", schedule.cycle_s, schedule.previous_cycle_s, width),
    ]
    return [*lines, Text(f"{'cycles done':<{LABEL}}{schedule.cycles}", "dim" if not schedule.cycles else "")]


def _counted(label: str, done: int, wanted: int, width: int, otherwise: str) -> Text:
    if wanted <= 0:
        return Text.assemble((f"{fit(label, LABEL)}", ""), (f"{short(done)}, {otherwise}", "dim"))
    share = share_of(done, wanted)
    return _line(label, share, f"{short(done)} of {short(wanted)}  {percent(share)}", width)


def _timed(label: str, seconds: float, previous_s: float, width: int) -> Text:
    if previous_s <= 0:
        return Text.assemble((f"{fit(label, LABEL)}", ""), (f"{duration(seconds)}, none before to compare", "dim"))
    return _line(label, share_of(seconds, previous_s), f"{duration(seconds)}, before {duration(previous_s)}", width)


def _line(label: str, share: float, words: str, width: int) -> Text:
    return Text.assemble(fit(label, LABEL), bar(share, max(width - LABEL - WORDS, 4)), fit(f" {words}", WORDS))


SCHEDULE = PaneSpec(
    title="Schedule",
    topics=frozenset({"status"}),
    draw=draw_schedule,
    help=(
        "How far the run is, and the cycle it is in: new data against what is waited for, updates of this cycle, and "
        "its training and cycle time against those of the cycle before. t trains now, without waiting for more data."
    ),
)
