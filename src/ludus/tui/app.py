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
from textual.events import Resize
from textual.screen import Screen

from ludus.daemon.messages import COMMANDS, Failure, Pause, Payload, Resume, Stop
from ludus.monitor.message_queue import MessageQueue, Reply
from ludus.monitor.run_view import Entry, RunView
from ludus.monitor.source import Source
from ludus.reports.number_text import clean
from ludus.tui.board import Board
from ludus.tui.commands import ORDERS, Ask, Confirm, Help, Order, in_words
from ludus.tui.panes import PANES
from ludus.tui.terminal_driver import TerminalDriver

PAINTS_PER_S = 5.0
BUSY_STAGES = ("STARTING", "WAITING FOR DATA", "TRAINING", "EVALUATING", "EXPORTING", "PAUSED", "STOPPING")


class Dashboard(App[str]):
    """Shows one run. Its result is how things ended, for the terminal that it gives back."""

    CSS_PATH = "dashboard.tcss"
    TITLE = "ludus"
    AUTO_FOCUS = None
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "order('pause')", "Pause"),
        Binding("c", "order('checkpoint')", "Save"),
        Binding("e", "order('export')", "Export"),
        Binding("x", "order('stop')", "Stop"),
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
        super().__init__(driver_class=TerminalDriver, ansi_color=True if "NO_COLOR" in os.environ else None)
        self.source = source
        self.message_queue = MessageQueue()
        self.view = RunView()
        self._first = list(first)
        self._board = Board(self.view)
        self._is_leaving = self._leaves_soon = False
        self._was_live = True

    def compose(self) -> ComposeResult:
        """All that is on the screen but toasts and questions."""
        yield self._board

    def on_mount(self) -> None:
        """Begin to listen, and to paint."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.action_leave_now)
        # Shell and kernel may say several times that the terminal is closed; none of them is in a hurry.
        loop.add_signal_handler(signal.SIGHUP, self.action_leave_now, False)
        self.source.start(self.message_queue)
        for command in self._first:
            self.send(command)
        if self._leaves_soon:
            self.action_leave_now()
        self.set_interval(1 / PAINTS_PER_S, self.paint)

    def on_resize(self, event: Resize) -> None:
        """Another size may have another arrangement."""
        self._board.place_panes(event.size.width, event.size.height)

    def paint(self) -> None:
        """Take what has come and redraw what it concerns."""
        if isinstance(self._driver, TerminalDriver) and self._driver.is_gone:
            self.action_leave_now(hurries=False)
        if not self._board.is_mounted:
            return
        self.view.connection = self.source.connection
        self.view.quiet_s = time.monotonic() - self.message_queue.last_news_s
        changed = self.view.absorb(self.message_queue.drain())
        connection = self.view.connection
        if self._was_live and connection.state in ("ended", "lost"):  # told once, with the end of its log
            logged = [entry.text for entry in self.view.log if entry.kind == "log" and entry.text != connection.words]
            self.say("\n".join((connection.words, *logged[-4:])), severity="warning", title="no longer connected")
        self._was_live = connection.is_live
        self._board.paint(changed)

    def action_show(self, name: str) -> None:
        """Show one pane alone; its key again: all of them."""
        self._board.show(name)

    def action_all_panes(self) -> None:
        """Leave the filter, then the zoom."""
        self._board.show_all()

    def action_filter(self) -> None:
        """Ask for words that the log's lines must have."""
        self._board.ask_for_filter()

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
            self.view.log.append(Entry(time.time(), "error", clean(f"{command.type}: {reply.message}")))
            if command.type == "start_training":
                self.view.failure = reply.message
            self.say(reply.message, severity="error", title=f"{command.type} was refused")
            self._board.log_pane.redraw(self.view)
        elif command.type != "subscribe":
            self.say(in_words(reply), title=command.type)

    def say(self, message: str, *, title: str = "", severity: str = "information") -> None:
        """A toast of plain text."""
        kind: Any = severity
        lines = "\n".join(clean(line)[:300] for line in message.splitlines()[:12])
        self.notify(lines, title=title, severity=kind, markup=False, timeout=12.0 if severity == "error" else 5.0)

    def action_order(self, name: str) -> None:
        """What a key does: stop after a question, all else at once. Pause also goes on."""
        if name == Stop.type:
            self._give(ORDERS[name])
        elif name == Pause.type and self.view.status.stage == "PAUSED":
            self.send(Resume())
        else:
            self.send(COMMANDS[name]())

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
            self.send(order.command(text))
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

    def action_leave_now(self, hurries: bool = True) -> None:
        """Quit without a question; again, while the run is being stopped: at once, if that is meant."""
        if self._is_leaving:
            if hurries:
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
