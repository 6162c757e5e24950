"""Every command of the protocol as people give it: by a key, from the palette, with a question where it needs words.

Invariant: the palette has an entry for each command of the registry; to add one, describe it here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ludus.daemon import messages

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
