"""The dashboard. Everything it shows came as a message through its source, so a recording shows the same as a run.

Invariant: nothing that the other side does or fails to do blocks the keys. The source reads and writes in threads; here
a clock takes what has come, at most `PAINTS_PER_S` times a second, and redraws the panes that it concerns.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any, ClassVar

from textual import work
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Input, Static

from ludus.daemon.messages import (
    Export,
    Failure,
    MakeCheckpoint,
    Pause,
    Payload,
    Resume,
    StartTrainingImmediately,
    Stop,
)
from ludus.monitor.message_queue import MessageQueue, Reply
from ludus.monitor.replies import in_words
from ludus.monitor.run_view import Entry, RunView
from ludus.monitor.source import Source
from ludus.reports.number_text import clean
from ludus.tui import head
from ludus.tui.arrangement import Mode, arrange, mode_of
from ludus.tui.commands import ORDERS, Order
from ludus.tui.pane import LogPane, Pane
from ludus.tui.panes import PANES
from ludus.tui.screens import Ask, Confirm, Help
from ludus.tui.tabs import key_line, tab_line

PAINTS_PER_S = 5.0
BUSY_STAGES = ("STARTING", "WAITING FOR DATA", "TRAINING", "EVALUATING", "EXPORTING", "PAUSED", "STOPPING")


class Dashboard(App[str]):
    """Shows one run. Its result is how things ended, for the terminal that it gives back."""

    CSS_PATH = "dashboard.tcss"
    TITLE = "ludus"
    AUTO_FOCUS = None
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "pause", "Pause"),
        Binding("c", "order('checkpoint')", "Save"),
        Binding("e", "export", "Export"),
        Binding("x", "stop_run", "Stop"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("question_mark,f1", "help", "Help", key_display="?"),
        Binding("q", "leave", "Quit"),
        Binding("t", "order('start_training_immediately')", "Train now", show=False),
        Binding("ctrl+c", "leave_now", "Quit", show=False, priority=True),
        Binding("ctrl+q", "leave", "Quit", show=False),
        Binding("0,escape", "all_panes", "All panes", show=False),
        *(Binding(str(number), f"show('{pane.name}')", pane.title, show=False) for number, pane in enumerate(PANES, 1)),
    ]

    def __init__(self, source: Source, *, first: Iterable[Payload] = ()) -> None:
        # Textual turns colours into greys where there should be none; without them altogether it must not make its own.
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        self.source = source
        self.message_queue = MessageQueue()
        self.view = RunView()
        self._first = list(first)
        self._head, self._tabs = Static(id="head"), Static(id="tabs")
        self._log_pane = LogPane(PANES[-1], len(PANES))
        shown = [Pane(spec, number) for number, spec in enumerate(PANES[:-1], start=1)]
        self._panes: dict[str, Pane] = {pane.spec.name: pane for pane in (*shown, self._log_pane)}
        self._filter = Input(placeholder="words that a line must have, -word that it must not; Esc ends", id="filter")
        self._filter.disabled = True  # a hidden line must not take keys
        self._too_small, self._footer = Static("too small: at least 40×10", id="too-small"), Static(id="keys")
        self._mode: Mode = "tabs"
        self._chosen = PANES[0].name
        self._is_zoomed = False
        self._is_leaving = self._leaves_soon = False
        self._was_live = True
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
        """Begin to listen, and to paint."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.action_leave_now)
        self.source.start(self.message_queue)
        for command in self._first:
            self.send(command)
        if self._leaves_soon:
            self.action_leave_now()
        self._rearrange()
        self._panes[self._chosen].focus()
        self.set_interval(1 / PAINTS_PER_S, self.paint)

    def on_resize(self, event: Resize) -> None:
        """Another size may have another arrangement."""
        self._rearrange(event.size.width, event.size.height)

    def paint(self) -> None:
        """Take what has come and redraw what it concerns."""
        if not self._head.is_attached:
            return
        self.view.connection = self.source.connection
        self.view.quiet_s = time.monotonic() - self.message_queue.last_news_s
        changed = self.view.absorb(self.message_queue.drain())
        self._tell_if_it_ended()
        self._paint_head()
        for pane in self._panes.values():
            if pane.spec.topics & changed or pane.needs_drawing():
                pane.redraw(self.view)

    def redraw(self) -> None:
        """Draw everything that is on the screen."""
        self._paint_head()
        for pane in self._panes.values():
            pane.redraw(self.view)

    def _paint_head(self) -> None:
        width = max(self.size.width, 1)
        first, second = head.draw(self.view, width)
        if (first, second, second.style) == self._head_shown:
            return
        self._head_shown = (first.copy(), second, second.style)
        self._head.update(first.append("\n").append_text(second), layout=False)

    def _tell_if_it_ended(self) -> None:
        """The moment in which the other side has gone is told once, with the end of its log."""
        connection = self.view.connection
        if self._was_live and connection.state in ("ended", "lost"):
            last = [entry.text for entry in self.view.log if entry.kind == "log" and entry.text != connection.words][
                -4:
            ]
            self.say("\n".join((connection.words, *last)), severity="warning", title="no longer connected")
        self._was_live = connection.is_live

    # -- layout --------------------------------------------------------------------------------------------------------

    def _rearrange(self, width: int | None = None, height: int | None = None) -> None:
        width, height = width or self.size.width, height or self.size.height
        self._mode = mode_of(width, height)
        is_small = self._mode == "too small"
        has_tabs = self._mode == "tabs" or (self._is_zoomed and not is_small)
        taken = 3 + has_tabs + self._filter.display
        placed = arrange(self._mode, width, height - taken, self._chosen, is_zoomed=self._is_zoomed)
        for widget in (self._head, self._footer):
            widget.display = not is_small
        self._tabs.display, self._too_small.display = has_tabs, is_small
        self._tabs.update(tab_line(self._chosen, width), layout=False)
        self._footer.update(key_line(width), layout=False)
        for pane in self._panes.values():
            pane.place(placed.regions.get(pane.spec.name))
        self.call_after_refresh(self.redraw)

    def action_show(self, name: str) -> None:
        """Show one pane alone; its key again: all of them."""
        self._is_zoomed = self._mode != "tabs" and not (self._is_zoomed and self._chosen == name)
        self._chosen = name
        self._rearrange()
        self._panes[name].focus()

    def action_all_panes(self) -> None:
        """Leave the filter, then the zoom."""
        if self._filter.display:
            self._end_filter()
        else:
            self._is_zoomed = False
            self._rearrange()

    # -- filter --------------------------------------------------------------------------------------------------------

    def action_filter(self) -> None:
        """Ask for words that the log's lines must have."""
        self._filter.display, self._filter.disabled = True, False
        if not self._log_pane.display:
            self._chosen, self._is_zoomed = "log", self._mode != "tabs"
        self._rearrange()
        self._filter.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while people type."""
        if event.input.id == "filter":
            self._log_pane.wanted = event.value.strip()
            self._log_pane.follow()
            self._log_pane.redraw(self.view)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter: keep the filter, and scroll in what it lets through."""
        self._log_pane.focus()

    def _end_filter(self) -> None:
        self._filter.value = ""
        self._filter.display, self._filter.disabled = False, True
        self._rearrange()
        self._log_pane.focus()

    # -- commands ------------------------------------------------------------------------------------------------------

    def send(self, command: Payload) -> None:
        """Send a command; its reply is shown when it comes."""
        self._await(command, self.source.send(command))

    @work
    async def _await(self, command: Payload, reply: Future[Reply]) -> None:
        self.show_reply(command, await asyncio.wrap_future(reply))

    def show_reply(self, command: Payload, reply: Reply) -> None:
        """A toast, and for what went wrong a line of the log that stays."""
        if isinstance(reply, Failure):
            self.view.add_log(Entry(time.time(), "error", clean(f"{command.type}: {reply.message}")))
            if command.type == "start_training":
                self.view.failure = reply.message
            self.say(reply.message, severity="error", title=f"{command.type} was refused")
            self._log_pane.redraw(self.view)
        elif command.type != "subscribe":
            self.say(in_words(reply), title=command.type)

    def say(self, message: str, *, title: str = "", severity: str = "information") -> None:
        """A toast of plain text."""
        kind: Any = severity
        lines = "\n".join(clean(line)[:300] for line in message.splitlines()[:12])
        self.notify(lines, title=title, severity=kind, markup=False, timeout=12.0 if severity == "error" else 5.0)

    def action_pause(self) -> None:
        """Pause, or go on."""
        self.send(Resume() if self.view.status.stage == "PAUSED" else Pause())

    def action_order(self, name: str) -> None:
        """A command that needs no words."""
        self.send(MakeCheckpoint() if name == MakeCheckpoint.type else StartTrainingImmediately())

    def action_export(self) -> None:
        """Export the newest policy."""
        self.send(Export())

    def action_stop_run(self) -> None:
        """Stop the run, after a question."""
        self._give(ORDERS[Stop.type])

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """The palette: every command of the protocol, then what Textual offers."""
        for order in ORDERS.values():
            yield SystemCommand(order.title, order.help, lambda order=order: self._give(order))
        for pane in PANES:
            yield SystemCommand(f"Show {pane.title}", "this pane alone", lambda name=pane.name: self.action_show(name))
        yield SystemCommand("Help", "every key and every pane", self.action_help)
        yield SystemCommand("Quit", "leave the dashboard", self.action_leave)
        for command in super().get_system_commands(screen):
            if command.title in ("Theme", "Screenshot"):
                yield command

    @work
    async def _give(self, order: Order) -> None:
        """Ask what has to be asked, then send."""
        if order.warning and not await self.push_screen_wait(Confirm(order.warning)):
            return
        text = await self.push_screen_wait(Ask(order.question)) if order.question else ""
        if text is None:
            return
        try:
            self.send(order.make(text))
        except ValueError as error:
            self.say(f"{error}\nexpected: {order.question}", severity="error", title=order.title)

    def action_help(self) -> None:
        """Keys and panes."""
        self.push_screen(Help())

    # -- leaving -------------------------------------------------------------------------------------------------------

    @work
    async def action_leave(self) -> None:
        """Quit; where that stops a run, ask first."""
        stops = self.source.owns_run and self.source.connection.is_live and self.view.status.stage in BUSY_STAGES
        question = "Quit? The run was started here: it is saved and stopped, and the same command resumes it."
        if not stops or self._is_leaving or await self.push_screen_wait(Confirm(question)):
            self.action_leave_now()

    def leave_soon(self) -> None:
        """Quit as soon as everything is there that can be taken down again; for signals before that."""
        self._leaves_soon = True

    def action_leave_now(self) -> None:
        """Quit without a question; again, while the run is being stopped: at once."""
        if self._is_leaving:
            self.source.hurry()
            return
        self._is_leaving = True
        if self.source.owns_run and self.source.connection.is_live:
            self.say("stopping the run in order; ctrl+c again: at once", title="leaving")
        self._close()

    @work(thread=True)
    def _close(self) -> None:
        words = self.source.close()
        self.call_from_thread(self.exit, words)
