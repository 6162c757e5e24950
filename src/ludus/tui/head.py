"""The two lines at the top: which run, what it is doing, for how long, and how we hear of it."""

from __future__ import annotations

from rich.text import Text

from ludus.monitor.run_view import RunView
from ludus.reports.number_text import clean, duration, percent, share_of, short
from ludus.tui.drawing import fit

SIGNS = {
    "IDLE": ("·", "dim"),
    "STARTING": ("…", "yellow"),
    "WAITING FOR DATA": ("…", "yellow"),
    "TRAINING": ("▶", "green"),
    "EVALUATING": ("▶", "green"),
    "EXPORTING": ("▶", "green"),
    "PAUSED": ("‖", "yellow"),
    "STOPPING": ("■", "yellow"),
    "DONE": ("✓", "green"),
    "STOPPED": ("■", "yellow"),
    "ERROR": ("✗", "red"),
}
QUIET_S = 5.0
"""How long a live run may be silent before people are told."""


def draw(view: RunView, width: int) -> list[Text]:
    """Two lines."""
    return [_first(view, width), _second(view, width)]


def _first(view: RunView, width: int) -> Text:
    status = view.status
    sign, style = SIGNS[status.stage]
    activity = status.activity if status.activity.lower() != status.stage.lower() else ""
    done = f"{percent(min(share_of(status.steps, status.total_steps), 1.0))}  " if status.total_steps else ""
    right = f" {done}up {duration(status.uptime_s)} "
    words = Text.assemble((f" {clean(status.run or 'ludus')} ", "bold"), (f" {sign} {status.stage} ", f"bold {style}"))
    words.append(clean("  ".join(each for each in (status.part, activity) if each)))
    words.truncate(max(width - len(right), 0), overflow="ellipsis", pad=True)
    return Text.assemble(words, right)


def _second(view: RunView, width: int) -> Text:
    words, style = _message(view)
    return Text(fit(f" {words}", width), style)


def _message(view: RunView) -> tuple[str, str]:
    """What matters most: a failure, then silence, then whom we listen to and what was left out."""
    connection = view.connection
    if view.failure:
        return f"✗ {view.failure.splitlines()[0] if view.failure.strip() else 'the run has failed'}", "bold red reverse"
    if connection.state == "lost" and view.status.stage in ("DONE", "STOPPED"):
        return f"{SIGNS[view.status.stage][0]} {connection.words}", "bold"
    if connection.state in ("ended", "lost"):
        return f"✗ {connection.words}", "bold yellow reverse"
    if connection.is_live and view.quiet_s >= QUIET_S:
        return f"! {connection.words}, silent for {duration(view.quiet_s)}", "bold yellow"
    return "  ".join((connection.words, *_losses(view))), "dim"


def _losses(view: RunView) -> list[str]:
    losses = view.losses
    found = (
        (losses.unreadable, "unreadable lines"),
        (losses.too_long, "lines too long"),
        (losses.skipped_in_all, "messages not shown"),
    )
    return [f"{short(count)} {what}" for count, what in found if count]
