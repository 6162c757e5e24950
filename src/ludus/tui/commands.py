"""Every command of the protocol as people give it: by a key, from the palette, with a question where it needs words.

Invariant: the palette has an entry for each command of the registry; to add one, describe it here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ludus.daemon.messages import (
    AskStatus,
    Export,
    MakeCheckpoint,
    Pause,
    Payload,
    Resume,
    Set,
    Shutdown,
    StartTraining,
    StartTrainingImmediately,
    Stop,
    Subscribe,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A command in the palette."""

    title: str
    help: str
    make: Callable[[str], Payload]
    """From what was typed; raises ValueError with what is expected."""
    question: str = ""
    """What to ask for; empty: nothing."""
    warning: str = ""
    """What to confirm first; empty: nothing."""


def _start(text: str) -> Payload:
    path, *overrides = text.split()
    return StartTraining(config=path, overrides=tuple(overrides))


def _export(text: str) -> Payload:
    policy, _, out = text.strip().partition(" ")
    return Export(policy=policy or None, out=out.strip() or None)


def _set(text: str) -> Payload:
    values = {}
    for part in text.split():
        key, sign, value = part.partition("=")
        if not sign or not key:
            raise ValueError(f"{part!r} is not KEY.PATH=VALUE")
        values[key] = _value(value)
    return Set(values=values)


def _value(text: str) -> object:
    """A number, true, false or null as JSON has them; everything else is text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _subscribe(text: str) -> Payload:
    return Subscribe(types=tuple(text.split()) or None)


ORDERS: Mapping[str, Order] = {
    Pause.type: Order(title="Pause", help="stop after the current update, keep everything", make=lambda _: Pause()),
    Resume.type: Order(title="Resume", help="go on after a pause", make=lambda _: Resume()),
    MakeCheckpoint.type: Order(title="Checkpoint", help="save the state now", make=lambda _: MakeCheckpoint()),
    Export.type: Order(
        title="Export",
        help="write a policy as files that can be used elsewhere",
        make=_export,
        question="Which version, and into which folder? POLICY FOLDER, or nothing: the newest, in the run's directory",
    ),
    StartTrainingImmediately.type: Order(
        title="Train now", help="do not wait for more new data", make=lambda _: StartTrainingImmediately()
    ),
    Stop.type: Order(
        title="Stop the run",
        help="save and end the run; the dashboard stays",
        make=lambda _: Stop(),
        warning="Stop the run? It is saved first, and the same command resumes it.",
    ),
    StartTraining.type: Order(
        title="Start a run",
        help="start or resume a run",
        make=_start,
        question="Which config? CONFIG [KEY.PATH=VALUE]...",
    ),
    Set.type: Order(
        title="Set",
        help="change keys of the run while it is running",
        make=_set,
        question="Which keys? KEY.PATH=VALUE ...   such as train.steps=2000000",
    ),
    AskStatus.type: Order(title="Status", help="ask for the state now", make=lambda _: AskStatus()),
    Subscribe.type: Order(
        title="Subscribe",
        help="choose which messages come",
        make=_subscribe,
        question="Which types of messages? Names with spaces between; nothing: all",
    ),
    Shutdown.type: Order(
        title="Shut down",
        help="stop the run and end its daemon",
        make=lambda _: Shutdown(),
        warning="Shut the daemon down? The run is saved first.",
    ),
}
