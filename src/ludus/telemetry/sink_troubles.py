"""Which sinks of a run lost something, as its events tell."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ludus.storage.jsonl import read_jsonl
from ludus.telemetry.sink import SinkStatus


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
