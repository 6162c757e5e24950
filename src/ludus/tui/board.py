"""What is on the screen, and where: the lines around the panes, the panes, and the filter of the log.

Invariant: panes never overlap, and together they fill the screen between head and footer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Container
from textual.geometry import Region
from textual.widgets import Input, Static

from ludus.monitor.run_view import RunView, Topic
from ludus.reports.number_text import clean, duration, percent, share_of, short
from ludus.tui.drawing import fit
from ludus.tui.pane import LogPane, Pane
from ludus.tui.panes import PANES

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


def head_lines(view: RunView, width: int) -> tuple[Text, Text]:
    """Which run, what it is doing and for how long; then how we hear of it, or what went wrong."""
    words, style = _message(view)
    return _first(view, width), Text(fit(f" {words}", width), style)


def _first(view: RunView, width: int) -> Text:
    status = view.status
    sign, style = SIGNS[status.stage]
    activity = status.activity if status.activity.lower() != status.stage.lower() else ""
    share = status.share_done or share_of(status.steps, status.total_steps)
    done = f"{percent(min(share, 1.0))}  " if share or status.total_steps else ""
    right = f" {done}up {duration(status.uptime_s)} "
    words = Text.assemble((f" {clean(status.run or 'ludus')} ", "bold"), (f" {sign} {status.stage} ", f"bold {style}"))
    words.append(clean("  ".join(each for each in (status.part, activity) if each)))
    words.truncate(max(width - len(right), 0), overflow="ellipsis", pad=True)
    return Text.assemble(words, right)


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


ACTIONS = (
    ("?", "Help", "app.help"),
    ("q", "Quit", "app.leave"),
    ("^p", "Commands", "app.command_palette"),
    ("p", "Pause", "app.order('pause')"),
    ("c", "Checkpoint", "app.order('checkpoint')"),
    ("e", "Export", "app.order('export')"),
    ("x", "Stop", "app.order('stop')"),
    ("/", "Filter", "app.filter"),
    ("t", "Train now", "app.order('start_training_immediately')"),
)
"""Keys with what they do, the most needed first."""


def key_line(width: int) -> Text:
    """As many keys as there is room for; a click does the same as the key."""
    text = Text()
    for key, words, action in ACTIONS:
        if text.cell_len + len(key) + len(words) + 2 <= width:
            text.append(" ").append(key, Style(bold=True, underline=True, meta={"@click": action}))
            text.append(f" {words} ", Style(meta={"@click": action}))
    return text


def tab_line(chosen: str, width: int) -> Text:
    """All panes with their keys; the one that is shown is reversed. Names are shortened where there is no room."""
    for most in (30, 12, 8, 4, 0):
        parts = [(f" {number} {pane.title[:most]}".rstrip() + " ", pane.name) for number, pane in enumerate(PANES, 1)]
        if sum(len(words) for words, _ in parts) <= width or most == 0:
            break
    text = Text()
    for words, name in parts:
        text.append(words, "bold reverse" if name == chosen else "")
    return text


LEAST_WIDTH, LEAST_HEIGHT = 40, 10
"""Below this nothing can be read."""
GRID_WIDTH, GRID_HEIGHT = 110, 34
WIDE_WIDTH, WIDE_HEIGHT = 170, 48

Mode = Literal["too small", "tabs", "grid", "wide"]
Column = Sequence[tuple[str, int]]
"""Panes from top to bottom, each with its share of the height."""

GRID: Sequence[tuple[int, Column]] = (
    (53, (("rooms", 16), ("schedule", 8), ("log", 13))),
    (47, (("training", 15), ("league", 11), ("collection", 11))),
)
WIDE: Sequence[tuple[int, Column]] = (
    (37, (("rooms", 24), ("schedule", 8), ("log", 25))),
    (31, (("training", 38), ("collection", 19))),
    (32, (("league", 36), ("episode", 21))),
)
"""Columns from left to right, each with its share of the width."""
FIXED_HEIGHTS = {"schedule": 8}
"""Panes that always have the same lines; more room would be wasted on them."""


def mode_of(width: int, height: int) -> Mode:
    """What a terminal of this size has room for."""
    if width < LEAST_WIDTH or height < LEAST_HEIGHT:
        return "too small"
    if width < GRID_WIDTH or height < GRID_HEIGHT:
        return "tabs"
    return "grid" if width < WIDE_WIDTH or height < WIDE_HEIGHT else "wide"


def arrange(mode: Mode, width: int, height: int, chosen: str, *, is_zoomed: bool) -> dict[str, Region]:
    """Place the panes in an area of this size: one with tabs or when it is zoomed, else the grid of the mode."""
    regions: dict[str, Region] = {}
    if mode == "too small":
        return regions
    if mode == "tabs" or is_zoomed:
        return {chosen: Region(0, 0, width, height)}
    columns = WIDE if mode == "wide" else GRID
    left = 0
    for column_width, column in zip(_split(width, [share for share, _ in columns]), columns, strict=True):
        top = 0
        for (name, _), pane_height in zip(column[1], _heights(height, column[1]), strict=True):
            regions[name] = Region(left, top, column_width, pane_height)
            top += pane_height
        left += column_width
    return regions


def _heights(height: int, column: Column) -> list[int]:
    fixed = sum(FIXED_HEIGHTS.get(name, 0) for name, _ in column)
    free = iter(_split(height - fixed, [share for name, share in column if name not in FIXED_HEIGHTS]))
    return [FIXED_HEIGHTS.get(name) or next(free) for name, _ in column]


def _split(length: int, shares: Sequence[int]) -> list[int]:
    """Whole parts in the given shares that add up exactly."""
    ends = [round(length * sum(shares[: number + 1]) / sum(shares)) for number in range(len(shares))]
    return [end - begin for begin, end in zip([0, *ends], ends, strict=False)]


class Board(Container):
    """Draws a view of a run. With tabs one pane is shown; otherwise all of them, or one that is zoomed."""

    def __init__(self, view: RunView) -> None:
        super().__init__()
        self._view = view
        self._head, self._tabs = Static(id="head"), Static(id="tabs")
        self.log_pane = LogPane(PANES[-1], len(PANES))
        shown = [Pane(spec, number) for number, spec in enumerate(PANES[:-1], start=1)]
        self._panes: dict[str, Pane] = {pane.spec.name: pane for pane in (*shown, self.log_pane)}
        self._filter = Input(placeholder="words that a line must have, -word that it must not; Esc ends", id="filter")
        self._filter.disabled = True  # a hidden line must not take keys
        self._too_small, self._footer = Static("too small: at least 40×10", id="too-small"), Static(id="keys")
        self._mode: Mode = "tabs"
        self._chosen = PANES[0].name
        self._is_zoomed = False
        self._head_shown: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        """Head, tabs, panes, the filter's line, footer."""
        yield self._head
        yield self._tabs
        with Container(id="panes"):
            yield from self._panes.values()
        yield self._too_small
        yield self._filter
        yield self._footer

    def on_mount(self) -> None:
        """Begin with the first pane."""
        self.place_panes()
        self._panes[self._chosen].focus()

    def paint(self, changed: set[Topic]) -> None:
        """Redraw what a change concerns."""
        self._paint_head()
        for pane in self._panes.values():
            if pane.spec.topics & changed or pane.needs_drawing():
                pane.redraw(self._view)

    def _redraw(self) -> None:
        self._paint_head()
        for pane in self._panes.values():
            pane.redraw(self._view)

    def _paint_head(self) -> None:
        first, second = head_lines(self._view, max(self.app.size.width, 1))
        if (first, second, second.style) == self._head_shown:
            return
        self._head_shown = (first.copy(), second, second.style)
        self._head.update(first.append("\n").append_text(second), layout=False)

    def place_panes(self, width: int | None = None, height: int | None = None) -> None:
        """Place everything in a terminal of this size, or of the size that it has."""
        width, height = width or self.app.size.width, height or self.app.size.height
        self._mode = mode_of(width, height)
        is_small = self._mode == "too small"
        has_tabs = self._mode == "tabs" or (self._is_zoomed and not is_small)
        taken = 3 + has_tabs + self._filter.display
        regions = arrange(self._mode, width, height - taken, self._chosen, is_zoomed=self._is_zoomed)
        for widget in (self._head, self._footer):
            widget.display = not is_small
        self._tabs.display, self._too_small.display = has_tabs, is_small
        self._tabs.update(tab_line(self._chosen, width), layout=False)
        self._footer.update(key_line(width), layout=False)
        for pane in self._panes.values():
            pane.place(regions.get(pane.spec.name))
        self.call_after_refresh(self._redraw)

    def show(self, name: str) -> None:
        """Show one pane alone, or all of them when it is alone already."""
        self._is_zoomed = self._mode != "tabs" and not (self._is_zoomed and self._chosen == name)
        self._chosen = name
        self.place_panes()
        self._panes[name].focus()

    def show_all(self) -> None:
        """Leave the filter, then the zoom."""
        if self._filter.display:
            self._filter.value = ""
            self._filter.display, self._filter.disabled = False, True
            self.place_panes()
            self.log_pane.focus()
        else:
            self._is_zoomed = False
            self.place_panes()

    def ask_for_filter(self) -> None:
        """Ask for words that the log's lines must have."""
        self._filter.display, self._filter.disabled = True, False
        if not self.log_pane.display:
            self._chosen, self._is_zoomed = "log", self._mode != "tabs"
        self.place_panes()
        self._filter.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while people type."""
        self.log_pane.wanted = event.value.strip()
        self.log_pane.follow()
        self.log_pane.redraw(self._view)

    def on_input_submitted(self) -> None:
        """Enter: keep the filter, and scroll in what it lets through."""
        self.log_pane.focus()
