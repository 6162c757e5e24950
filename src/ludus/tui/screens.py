"""What comes in front of the dashboard: a question to confirm, a line to type, and the help."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from ludus.tui.drawing import wrap
from ludus.tui.panes import PANES

KEYS = (
    ("1 – 7", "show a pane: as a tab, or alone on the whole screen"),
    ("0, Esc", "all panes again"),
    ("Tab, Shift+Tab", "the next pane, the one before"),
    ("↑ ↓ PgUp PgDn Home End", "scroll the pane that has the focus"),
    ("p", "pause after the current update; again: go on"),
    ("c", "checkpoint: save the state now"),
    ("e", "export the newest policy as files"),
    ("t", "train now, without waiting for more new data"),
    ("x", "stop the run: save and end it (asks first)"),
    ("/", "filter the log; Esc ends the filter"),
    ("Ctrl+P", "command palette: every command, themes, a screenshot"),
    ("?, F1", "this help"),
    ("q", "quit; a run that was started here is stopped in order (asks first)"),
    ("Ctrl+C", "quit without asking; again while it is stopping: at once"),
)


class Confirm(ModalScreen[bool]):
    """Asks before something that cannot be taken back."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,enter", "answer(True)", "Yes"),
        Binding("n,escape,q", "answer(False)", "No"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """The question and its keys."""
        with Vertical(classes="box"):
            yield Static(Text(self._question))
            yield Static(Text("\ny or Enter: yes     n or Esc: no", "bold"))

    def action_answer(self, answer: bool) -> None:
        """Done."""
        self.dismiss(answer)


class Ask(ModalScreen[str | None]):
    """Asks for one line of text; None when people think better of it."""

    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "give_up", "Never mind")]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """The question and a line."""
        with Vertical(classes="box"):
            yield Static(Text(self._question))
            yield Input()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Done."""
        event.stop()
        self.dismiss(event.value)

    def action_give_up(self) -> None:
        """Never mind."""
        self.dismiss(None)


class Help(ModalScreen[None]):
    """Every key and every pane."""

    AUTO_FOCUS = "VerticalScroll"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,f1,enter", "dismiss", "Back")]

    def compose(self) -> ComposeResult:
        """One long text that can be scrolled."""
        with VerticalScroll(classes="box help"):
            yield Static(help_text(min(int(self.app.size.width * 0.96) - 8, 92)))


def help_text(width: int) -> Text:
    """Keys, then panes, in lines of this width."""
    text = Text.assemble(("Keys", "bold"), "   (Esc goes back, ↑ ↓ scroll)\n")
    for keys, what in KEYS:
        first, *rest = wrap(f"{keys:<24}{what}", width, 24)
        text.append(first[:24], "bold").append("\n".join((first[24:], *rest))).append("\n")
    text.append("\nAt the top: ", "bold").append(
        "the run, its stage (▶ works, … waits, ‖ paused, ✓ done, ■ stopped, ✗ failed), how far it is and for how long "
        "it has been running; below that how we hear of it, or what went wrong. Messages that came too fast to be "
        "shown are counted there.\n"
    )
    for number, pane in enumerate(PANES, start=1):
        text.append(f"\n{number} {pane.title}: ", "bold").append(f"{pane.help}\n")
    return text
