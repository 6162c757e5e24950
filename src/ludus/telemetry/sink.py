"""What a sink for metrics and events must offer, and how one is doing: while it is used, and as the events tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import msgspec

from ludus.storage.jsonl import read_jsonl


class Sink(Protocol):
    """Somewhere metrics and events go. Called from one thread of its own; it may be slow, hang or raise.

    A sink that raises loses the line that it was given and gets the next one a little later; one that raises again and
    again is switched off. Nothing that can take time or fail belongs in its constructor.
    """

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Take one metric line."""
        ...

    def event(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Take one event."""
        ...

    def close(self) -> None:
        """Write out what is held back; called once, last, also after the sink was switched off."""
        ...


class LinesLost(Exception):
    """Raised by a sink that lost more, or fewer, lines than the one that it was given."""

    def __init__(self, reason: str, *, lines: int) -> None:
        super().__init__(reason)
        self.lines = lines


@runtime_checkable
class Abandonable(Protocol):
    """A sink that holds something that would outlive the run, such as a process."""

    def abandon(self) -> None:
        """Let go of it at once. Called from another thread while one of the sink's own calls does not come back."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkStatus:
    """How a sink is doing."""

    name: str
    queued: int
    """Lines that wait for it."""
    dropped: int
    """Lines that it never got, or that it failed to take."""
    error: str
    """Why it was switched off or, while it is tried again, why it failed last; empty while it works."""
    is_off: bool
    """It gets nothing any more."""


def name_of(sink: Sink) -> str:
    """What a sink calls itself (`name`), else its type."""
    return str(getattr(sink, "name", type(sink).__name__))


def read_sink_troubles(events: Path) -> list[SinkStatus]:
    """The sinks that dropped lines or failed since the run was last started; of a live run, as far as it is known."""
    known: dict[str, SinkStatus] = {}
    for line in read_jsonl(events):
        match line["event"]:
            case "started":
                known = {}
            case "sink_behind" | "sink_off" as kind:
                before = known.get(line["sink"])
                dropped = line.get("dropped", before.dropped if before else 0)
                known[line["sink"]] = SinkStatus(
                    name=line["sink"], queued=0, dropped=dropped, error=line["error"], is_off=kind == "sink_off"
                )
            case "sinks":
                known = {each["name"]: msgspec.convert(each, SinkStatus) for each in line["sinks"]}
    return [status for status in known.values() if status.dropped or status.error]


def trouble_in_words(status: SinkStatus) -> str:
    """What happened to a sink, on one line."""
    lost = f"{status.dropped:,} lines lost" if status.dropped else ""
    off = "switched off" if status.is_off else ""
    return ", ".join(part for part in (lost, off) if part) + (f" ({status.error})" if status.error else "")
