"""What mode evaluate came to: a row for each version that was measured."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from ludus.storage.jsonl import read_jsonl


def measured_table(events: Path) -> Table:
    """From the events of a run, oldest version first; one that was measured again counts once."""
    found = {event["policy"]: event for event in read_jsonl(events) if event.get("event") == "measured"}
    rows = sorted(found.values(), key=lambda event: int(event["policy"].rpartition("@")[2]))
    names = list(dict.fromkeys(name for event in rows for name in event["scores"]))
    table = Table(title="Measured", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for name in ("version", "step", *(name.removeprefix("evaluate/").replace("/", "\n") for name in names)):
        table.add_column(name, justify="left" if name == "version" else "right")
    for event in rows:
        scores = (f"{event['scores'][name]:.3f}" if name in event["scores"] else "" for name in names)
        table.add_row(event["policy"], f"{event['step']:,}", *scores)
    return table
