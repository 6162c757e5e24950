"""Every command of the protocol as people give it: by a key, from the palette, with a question where it needs words.

Invariant: the palette has an entry for each command of the registry; to add one, describe it here. In front of the
dashboard come a question to confirm, a line to type, and the help."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from ludus.daemon import messages
from ludus.tui.drawing import wrap
from ludus.tui.panes import PANES

MOST_FACTS = 8
HASH = re.compile(r"[0-9a-f]{40,}")


@dataclass(frozen=True, slots=True)
class Order:
    """A command in the palette."""

    kind: type[messages.Payload]
    title: str
    help: str
    make: Callable[[str], messages.Payload] | None = None
    """From what was typed, where that matters; raises ValueError with what is expected."""
    question: str = ""
    """What to ask for; empty: nothing."""
    warning: str = ""
    """What to confirm first; empty: nothing."""

    def command(self, text: str) -> messages.Payload:
        """The command for what was typed."""
        return self.kind() if self.make is None else self.make(text)


def _start(text: str) -> messages.Payload:
    path, *overrides = text.split()
    return messages.StartTraining(config=path, overrides=tuple(overrides))


def _export(text: str) -> messages.Payload:
    policy, _, out = text.strip().partition(" ")
    return messages.Export(policy=policy or None, out=out.strip() or None)


def _set(text: str) -> messages.Payload:
    values = {}
    for part in text.split():
        key, sign, value = part.partition("=")
        if not sign or not key:
            raise ValueError(f"{part!r} is not KEY.PATH=VALUE")
        values[key] = _value(value)
    return messages.Set(values=values)


def _value(text: str) -> object:
    """A number, true, false or null as JSON has them; everything else is text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _subscribe(text: str) -> messages.Payload:
    return messages.Subscribe(types=tuple(text.split()) or None)


_ORDERS = (
    Order(messages.Pause, "Pause", "stop after the current update, keep everything"),
    Order(messages.Resume, "Resume", "go on after a pause"),
    Order(messages.MakeCheckpoint, "Checkpoint", "save the state now"),
    Order(
        messages.Export,
        "Export",
        "write a policy as files that can be used elsewhere",
        make=_export,
        question="Which version, and into which folder? POLICY FOLDER, or nothing: the newest, in the run's directory",
    ),
    Order(messages.StartTrainingImmediately, "Train now", "do not wait for more new data"),
    Order(
        messages.Stop,
        "Stop the run",
        "save and end the run; the dashboard stays",
        warning="Stop the run? It is saved first, and the same command resumes it.",
    ),
    Order(
        messages.StartTraining,
        "Start a run",
        "start or resume a run",
        make=_start,
        question="Which config? CONFIG [KEY.PATH=VALUE]...",
    ),
    Order(
        messages.Set,
        "Set",
        "change keys of the run while it is running",
        make=_set,
        question="Which keys? KEY.PATH=VALUE ...   such as train.steps=2000000",
    ),
    Order(messages.AskStatus, "Status", "ask for the state now"),
    Order(
        messages.Subscribe,
        "Subscribe",
        "choose which messages come",
        make=_subscribe,
        question="Which types of messages? Names with spaces between; nothing: all",
    ),
    Order(
        messages.Shutdown,
        "Shut down",
        "stop the run and end its daemon",
        warning="Shut the daemon down? The run is saved first.",
    ),
)
ORDERS: Mapping[str, Order] = {order.kind.type: order for order in _ORDERS}


def in_words(ack: messages.Ack) -> str:
    """What an ack says: its result as lines of `name value`; `done` where there is none."""
    result = ack.result
    if ack.command == "status":
        result = {name: result[name] for name in ("stage", "steps", "total_steps", "version") if name in result}
    facts = [f"{name} {_fact(value)}" for name, value in list(result.items())[:MOST_FACTS]]
    return "\n".join(facts) or "done"


def _fact(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={each}" for name, each in value.items())
    text = str(value)
    return f"{text[:12]}…" if HASH.fullmatch(text) else text


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
        Binding("y,enter", "dismiss(True)", "Yes"),
        Binding("n,escape,q", "dismiss(False)", "No"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """The question and its keys."""
        with Vertical(classes="box"):
            yield Static(Text(self._question))
            yield Static(Text("\ny or Enter: yes     n or Esc: no", "bold"))


class Ask(ModalScreen[str | None]):
    """Asks for one line of text; None when people think better of it."""

    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Never mind")]

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
