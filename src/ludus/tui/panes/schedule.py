"""The cycle of waiting, training and exporting, as bars against what is waited for or against the cycle before."""

from __future__ import annotations

from rich.text import Text

from ludus.monitor.run_view import RunView
from ludus.reports.number_text import duration, percent, share_of, short
from ludus.tui.drawing import bar, fit
from ludus.tui.panes.spec import PaneSpec

LABEL, WORDS = 14, 24


def draw(view: RunView, width: int) -> list[Text]:
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
    name="schedule",
    title="Schedule",
    topics=frozenset({"status"}),
    draw=draw,
    help=(
        "How far the run is, and the cycle it is in: new data against what is waited for, updates of this cycle, and "
        "its training and cycle time against those of the cycle before. t trains now, without waiting for more data."
    ),
)
