"""`ludus inspect`: what is in a run; rows out to a file for people to change, and back. `ludus replay`: one episode."""

from __future__ import annotations

import json
import re
import sys
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ludus.cli.arguments import AsJson, GamePlugins, Run, open_run
from ludus.errors import ConfigError
from ludus.plugins import load_plugins

if TYPE_CHECKING:
    from ludus.records import Episode
    from ludus.storage.run_directory import RunDirectory

NEWEST = 8
NEWEST_REFUSALS = 3
EXPORTED = 1000


def inspect(
    run: Run,
    episodes: Annotated[int, typer.Option(help="How many of the newest episodes to list.")] = NEWEST,
    samples: Annotated[int, typer.Option(help="How many rows to show: verified ones, and of each reason.")] = 1,
    reason: Annotated[str, typer.Option(help="Only rows that were refused for this reason.")] = "",
    export: Annotated[Path | None, typer.Option(help="Write the newest rows to this file of JSON lines.")] = None,
    what: Annotated[str, typer.Option(help="What to export: verified, refused or all.")] = "all",
    limit: Annotated[int, typer.Option(min=1, help="How many rows to export, at most.")] = EXPORTED,
    bring_back: Annotated[
        Path | None, typer.Option("--import", help="Import the edits made in an exported file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show progress, checkpoints, versions, recorded episodes, sample rows and refused rows.

    To change rows: write them to a file with --export, edit it, and bring it back with --import.

    Example: ludus inspect runs/connect_four
    """
    from ludus.cli.inspect_rows import find_samples, take_rows, write_rows
    from ludus.storage.lock import RunLock

    directory, config = open_run(run)
    holder = RunLock.holder(directory.path)
    if export is not None:
        typer.echo(write_rows(directory, config, export, what, limit, reason))
    if bring_back is not None:
        typer.echo(take_rows(directory, config, bring_back, is_live=holder is not None))
    if export is not None or bring_back is not None:
        return
    facts: dict[str, Any] = {
        "run": config.name,
        "directory": str(directory.path),
        "games": [*(choice.key for choice in config.games), *(f"tasks:{t.name}" for t in getattr(config, "tasks", ()))],
        "topology": config.topology,
        "schedule": config.schedule,
        "holder": holder,
        "disk_mb": round(directory.disk_bytes() / 1e6, 1),
        **time_facts(directory.path),
        **catalog_facts(directory),
        **gathered_facts(directory),
        **loader_facts(directory),
        "sinks": sink_facts(directory),
        "newest_episodes": newest_episodes(directory.path, episodes),
        "samples": find_samples(directory, config, samples, reason) if samples > 0 else [],
    }
    typer.echo(json.dumps(facts, indent=1) if as_json else "\n".join(lines(facts)))


def time_facts(run: Path) -> dict[str, Any]:
    """When it ran, from which seed, and what was measured last."""
    from ludus.reports.run_facts import read_run_facts

    facts = read_run_facts(run)
    names = ("state", "began", "wall_s", "starts", "seed", "result_step", "error")
    return {**{name: getattr(facts, name) for name in names}, "result": dict(facts.result)}


def catalog_facts(directory: RunDirectory) -> dict[str, Any]:
    """What the catalog knows; checkpoints and versions are those on disk."""
    from ludus.reports.run_facts import checkpoints_on_disk
    from ludus.storage.catalog import Catalog

    with Catalog.open_readonly(directory.catalog) as catalog:
        versions = [ref for ref, _ in catalog.policies()]
        kept = [ref for ref in versions if directory.policy(ref.name, ref.version).is_dir()]
        return {
            "progress": catalog.cursor("progress", {}),
            "checkpoints": checkpoints_on_disk(directory),
            "versions": len(versions),
            "versions_on_disk": len(kept),
            "newest_version": str(kept[-1]) if kept else None,
            "refused": catalog.refused(),
            "refused_examples": catalog.refused_examples(),
            "quarantined": [list(row) for row in catalog.query("SELECT source, reason FROM quarantined")],
        }


def gathered_facts(directory: RunDirectory) -> dict[str, Any]:
    """Rows that did not come from the run's own policy, and decisions of people that wait for the run to take them."""
    from ludus.buffer import read_facts, waiting_in_inbox

    folders = [folder for folder in (directory.expert, directory.pairs) if (folder / "rows.json").is_file()]
    gathered = {folder.name: {key: read_facts(folder)[key] for key in ("rows", "refused")} for folder in folders}
    return {"gathered": gathered, "inbox": len(waiting_in_inbox(directory.inbox))}


def loader_facts(directory: RunDirectory) -> dict[str, Any]:
    """What the trainer's loader refused: counts by reason, and the newest of them."""
    from ludus.orchestrator.loader_watch import read_refusals
    from ludus.storage.jsonl import read_jsonl

    counts, _ = read_refusals(directory.refused_chunks)
    newest = list(deque(read_jsonl(directory.refused_chunks), NEWEST_REFUSALS)) if counts else []
    return {"refused_data": counts, "newest_refused_data": newest[::-1]}


def sink_facts(directory: RunDirectory) -> dict[str, str]:
    """The places for metrics that lost some of them, and why; what is in the run's own files is complete."""
    from ludus.telemetry.sinks import read_sink_troubles, trouble_in_words

    return {status.name: trouble_in_words(status) for status in read_sink_troubles(directory.events)}


def newest_episodes(run: Path, count: int) -> list[dict[str, Any]]:
    """The last recorded episodes, newest first."""
    from ludus.storage.segment_reader import SegmentReader

    reader = SegmentReader(run / "episodes")
    rows: list[dict[str, Any]] = []
    for _, table in reader.scan_readable():
        if len(rows) >= count:
            break
        columns = ["id", "purpose", "game", "policies", "versions", "returns", "length", "error"]
        rows += reversed(table.select(columns).to_pylist())
    return rows[:count]


def lines(facts: dict[str, Any]) -> list[str]:
    """The facts as a person reads them."""
    from ludus.cli.inspect_rows import sample_lines
    from ludus.cli.runs import date_text
    from ludus.reports.number_text import duration
    from ludus.reports.run_facts import result_text

    progress, holder, versions = facts["progress"], facts["holder"], facts["versions"]
    gone = versions - facts["versions_on_disk"]
    measured = f"at step {facts['result_step']:,}: {result_text(facts['result'])}" if facts["result"] else "not yet"
    text = [
        f"run          {facts['run']}  ({facts['directory']}, {facts['disk_mb']} MB)",
        f"plays        {', '.join(facts['games'])}  ({facts['topology']}, {facts['schedule']})",
        f"state        {facts['state']}{', pid ' + str(holder['pid']) if holder else ''}",
        *([f"error        {facts['error']}"] if facts["state"] == "failed" else []),
        f"started      {date_text(facts['began']) or 'never'}, ran {duration(facts['wall_s'])}"
        + (f" in {facts['starts']} starts" if facts["starts"] > 1 else ""),
        f"seed         {facts['seed']}",
        f"evaluated    {measured}",
        f"progress     {updates_done(progress):,} updates, {progress.get('steps', 0):,} steps, "
        f"{progress.get('episodes', 0):,} episodes" + (", finished" if progress.get("finished") else ""),
        f"checkpoints  {', '.join(map(str, facts['checkpoints'])) or 'none'}",
        f"versions     {versions}, newest {facts['newest_version']}" + (f", {gone} not on disk" if gone else ""),
        f"refused      {', '.join(f'{reason}: {n}' for reason, n in facts['refused'].items()) or 'nothing'}",
        *(f"  {reason}: {example}" for reason, example in facts["refused_examples"].items()),
    ]
    if facts["refused_data"]:
        counts = ", ".join(f"{reason}: {count:,}" for reason, count in facts["refused_data"].items())
        text.append(f"loader       refused {counts} (refused_chunks.jsonl has all)")
        text += [f"  {_refusal(row)}" for row in facts["newest_refused_data"]]
    text += [f"quarantined  {source}: {reason}" for source, reason in facts["quarantined"]]
    for name, known in facts["gathered"].items():
        text.append(
            f"{name:<12} {known['rows']:,} rows" + (f", {known['refused']:,} refused" if known["refused"] else "")
        )
    if facts["inbox"]:
        text.append(f"inbox        {facts['inbox']} imports wait for the run to take them")
    text += [f"{name:<12} {trouble}" for name, trouble in facts["sinks"].items()]
    if facts["newest_episodes"]:
        text.append("newest episodes (ludus replay RUN ID):")
    for row in facts["newest_episodes"]:
        seats = " v ".join(f"{name}@{version}" for name, version in zip(row["policies"], row["versions"], strict=True))
        result = row["error"] or "/".join(f"{value:g}" for value in row["returns"])
        text.append(f"  {row['id']}  {row['purpose']:<8}  {seats}  {row['length']} plies  {result}")
    if facts["samples"]:
        text += ["samples of rows (ludus inspect RUN --export FILE writes more):", *sample_lines(facts["samples"])]
    return text


def _refusal(row: dict[str, Any]) -> str:
    member = f"#{row['member']}" if row.get("member") else ""
    where = f"{row.get('file', '')}{member} at byte {row.get('offset', 0)}" if row.get("file") else ""
    return ": ".join(part for part in (where, str(row.get("reason", "")), str(row.get("detail", ""))) if part)


def updates_done(progress: dict[str, Any]) -> int:
    """Updates without the one that only marks the end of the run."""
    return int(progress.get("update", 0)) - bool(progress.get("finished"))


def replay(
    run: Annotated[Path, typer.Argument(help="Directory of the run.")],
    episode: Annotated[str, typer.Argument(help="Episode id (or its beginning), or `last`.")] = "last",
    plugin: GamePlugins = None,
    moves_only: Annotated[bool, typer.Option("--moves", help="Print the moves without the positions.")] = False,
    all_moves: Annotated[bool, typer.Option("--all", help="Print all moves at once, also in a terminal.")] = False,
) -> None:
    """Replay a recorded episode from its seed and moves.

    The result comes first; in a terminal the moves come one by one. `ludus inspect RUN` lists episodes.

    Example: ludus replay runs/connect_four last
    """
    from ludus.games.board_text import label_board
    from ludus.games.episode_text import episode_lines

    load_plugins(plugin or [])
    directory, _ = open_run(run)
    found = find_episode(directory.path, episode)
    task = found.task
    seats = ", ".join(f"{seat}: {who.label}" for seat, who in enumerate(task.seats))
    typer.echo(f"episode {found.id}  {task.game}  seed {task.seed}  {task.purpose}  {seats}")
    typer.echo(f"result: {result_words(found)}")
    is_watched = sys.stdin.isatty() and sys.stdout.isatty() and not all_moves and not moves_only
    *moves, end = moves_of(episode_lines(found, moves_only=moves_only))
    for number, lines in enumerate(moves):
        for line in lines:
            typer.echo(label_board(line))
        if is_watched and number < len(moves) - 1:
            answer = typer.prompt("Enter: next move, a: all, q: leave", default="", show_default=False)
            if answer.strip().lower().startswith("q"):
                return
            is_watched = not answer.strip().lower().startswith("a")
    for line in end:
        typer.echo(line)


def moves_of(lines: Iterable[str]) -> list[list[str]]:
    """Lines by move, those of how it ended last."""
    moves: list[list[str]] = [[]]
    end: list[str] = []
    for line in lines:
        if end or line.startswith(("returns: ", "return: ", "reward ")):
            end.append(line)
        elif re.match(r" *\d+\. ", line) and moves[-1]:
            moves.append([line])
        else:
            moves[-1].append(line)
    return [*moves, end]


def result_words(episode: Episode) -> str:
    """Who won, what everybody got, and how long it took."""
    if episode.error:
        return f"it failed: {episode.error}"
    names = [f"seat {seat} ({who.policy})" for seat, who in enumerate(episode.task.seats)]
    returns, best = list(episode.returns), max(episode.returns)
    got = ", ".join(f"seat {seat}: {value:g}" for seat, value in enumerate(returns))
    if len(names) == 1:
        return f"return {returns[0]:g} after {episode.length} moves"
    if all(value == best for value in returns):
        return f"a draw after {episode.length} moves; returns {got}"
    winners = " and ".join(name for name, value in zip(names, returns, strict=True) if value == best)
    return f"{winners} won after {episode.length} moves; returns {got}"


def find_episode(run: Path, wanted: str) -> Episode:
    """The recorded episode with this id or the only one that begins with it."""
    from ludus.storage.arrow import episodes_from_table
    from ludus.storage.segment_reader import SegmentReader

    newest = None
    matches = []
    for _, table in SegmentReader(run / "episodes").scan_readable():
        ids = table.column("id").to_pylist()
        if ids and newest is None:
            newest = table.slice(len(ids) - 1, 1)
        matches += [table.slice(row, 1) for row, text in enumerate(ids) if text.startswith(wanted)]
    if wanted == "last":
        matches = [newest] if newest is not None else []
    if len(matches) != 1:
        count = "no recorded episode" if not matches else f"{len(matches)} episodes"
        raise ConfigError(f"{count} of {run} match {wanted!r}; list them with: ludus inspect {run}")
    return episodes_from_table(matches[0])[0]
