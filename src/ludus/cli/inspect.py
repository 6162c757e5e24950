"""`ludus inspect`: what is in a run, without touching it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

NEWEST = 8


def inspect(
    run: Annotated[Path, typer.Argument(help="Directory of the run, live or finished.")],
    episodes: Annotated[int, typer.Option(help="How many of the newest episodes to list.")] = NEWEST,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show progress, checkpoints, versions, recorded episodes and what was refused, of a live or finished run.

    Example: ludus inspect runs/connect_four
    """
    from ludus.cli.runs import open_run
    from ludus.storage.lock import RunLock

    directory, config = open_run(run)
    facts: dict[str, Any] = {
        "run": config.name,
        "directory": str(directory.path),
        "games": [choice.key for choice in config.games],
        "topology": config.topology,
        "schedule": config.schedule,
        "holder": RunLock.holder(directory.path),
        "disk_mb": round(directory.disk_bytes() / 1e6, 1),
        **catalog_facts(directory.catalog),
        "newest_episodes": newest_episodes(directory.path, episodes),
    }
    typer.echo(json.dumps(facts, indent=1) if as_json else "\n".join(lines(facts)))


def catalog_facts(path: Path) -> dict[str, Any]:
    """What the catalog knows."""
    from ludus.storage.catalog import Catalog

    with Catalog.open_readonly(path) as catalog:
        return {
            "progress": catalog.cursor("progress", {}),
            "checkpoints": [row[0] for row in catalog.query('SELECT "update" FROM checkpoints ORDER BY 1')][-5:],
            "versions": len(catalog.policies()),
            "newest_version": str(catalog.policies()[-1][0]) if catalog.policies() else None,
            "refused": catalog.refused(),
            "quarantined": [list(row) for row in catalog.query("SELECT source, reason FROM quarantined")],
        }


def newest_episodes(run: Path, count: int) -> list[dict[str, Any]]:
    """The last recorded episodes, newest first."""
    from ludus.storage.segment_reader import SegmentReader

    reader = SegmentReader(run / "episodes")
    rows: list[dict[str, Any]] = []
    for start in reversed(reader.starts()):
        if len(rows) >= count:
            break
        columns = ["id", "purpose", "game", "policies", "versions", "returns", "length", "error"]
        rows += reversed(reader.segment(start)[1].select(columns).to_pylist())
    return rows[:count]


def lines(facts: dict[str, Any]) -> list[str]:
    """The facts as a person reads them."""
    progress = facts["progress"]
    holder = facts["holder"]
    text = [
        f"run          {facts['run']}  ({facts['directory']}, {facts['disk_mb']} MB)",
        f"plays        {', '.join(facts['games'])}  ({facts['topology']}, {facts['schedule']})",
        f"state        {'live, pid ' + str(holder['pid']) if holder else 'not running'}",
        f"progress     update {progress.get('update', 0):,}, {progress.get('steps', 0):,} steps, "
        f"{progress.get('episodes', 0):,} episodes" + (", finished" if progress.get("finished") else ""),
        f"checkpoints  {', '.join(map(str, facts['checkpoints'])) or 'none'}",
        f"versions     {facts['versions']}, newest {facts['newest_version']}",
        f"refused      {', '.join(f'{reason}: {n}' for reason, n in facts['refused'].items()) or 'nothing'}",
    ]
    text += [f"quarantined  {source}: {reason}" for source, reason in facts["quarantined"]]
    if facts["newest_episodes"]:
        text.append("newest episodes (ludus replay RUN ID):")
    for row in facts["newest_episodes"]:
        seats = " v ".join(f"{name}@{version}" for name, version in zip(row["policies"], row["versions"], strict=True))
        result = row["error"] or "/".join(f"{value:g}" for value in row["returns"])
        text.append(f"  {row['id']}  {row['purpose']:<8}  {seats}  {row['length']} plies  {result}")
    return text
