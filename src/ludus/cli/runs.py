"""`ludus runs`: which runs there are and how they went. `ludus compare`: where configs and results of runs differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ludus.cli.arguments import AsJson, need_run
from ludus.errors import ConfigError, LudusError

if TYPE_CHECKING:
    from rich.table import Table

    from ludus.reports.run_facts import RunFacts

MOST_CHARACTERS = 60


def runs(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Folder with runs, at any depth.")] = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """List runs: state, date, wall time, progress, last result.

    \b
    Examples:
      ludus runs
      ludus runs /data/study --json
    """
    from ludus.reports.run_facts import find_runs, read_run_facts

    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder; start a run with: ludus run")
    found: list[RunFacts] = []
    damaged: dict[Path, str] = {}
    for path in find_runs(folder):
        try:
            found.append(read_run_facts(path))
        except (LudusError, OSError) as error:  # one that cannot be read hides no other
            damaged[path] = str(error).splitlines()[0]
    found.sort(key=lambda facts: facts.began or 0.0)
    if as_json:
        rows = [*map(facts_json, found), *({"path": str(path), "error": why} for path, why in damaged.items())]
        typer.echo(json.dumps({"runs": rows}, indent=1))
        return
    if not found and not damaged:
        raise ConfigError(f"{folder} has no runs; start one with: ludus run")
    if found:
        _print(_listing(found, folder))
    for path, why in damaged.items():
        typer.echo(f"{path}: cannot be read: {why}", err=True)


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Directories of runs, live or finished.")],
    as_json: AsJson = False,
) -> None:
    """Compare runs: which config keys differ, and which results.

    Results are the newest; where runs have come to different steps, also those at the last step that all have reached.

    Example: ludus compare runs/first runs/second
    """
    from ludus.reports.comparison import config_keys, differing_keys, shared_results
    from ludus.reports.run_facts import read_run_facts

    for path in runs:
        need_run(path)
    facts = [read_run_facts(path) for path in runs]
    configs = [config_keys(path) for path in runs]
    results = list(shared_results(facts))
    differing = differing_keys(configs)
    if as_json:
        found = {
            "runs": [facts_json(each) for each in facts],
            "config": {key: list(values) for key, values in differing},
            "results": {name: list(values) for name, values in results},
        }
        typer.echo(json.dumps(found, indent=1))
        return
    table = _table("", *_labels(runs))
    for label, values in _facts(facts):
        table.add_row(label, *values)
    table.add_section()
    for key, written in differing:
        table.add_row(key, *map(_shown, written))
    if not differing:
        table.add_row("config", *("the same" for _ in runs))
    table.add_section()
    for name, measured in results:
        table.add_row(name, *("" if value is None else _value(name, value) for value in measured))
    _print(table)


def facts_json(facts: RunFacts) -> dict[str, Any]:
    """A run as JSON."""
    from dataclasses import asdict

    return {**asdict(facts), "path": str(facts.path), "result": dict(facts.result)}


def date_text(seconds: float | None) -> str:
    """A date and a time here; empty where there is none."""
    return "" if seconds is None else datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")


def _listing(found: Sequence[RunFacts], folder: Path) -> Table:
    from ludus.reports.number_text import duration, steps_done

    table = _table("run", "state", "started", "wall time", "progress", "last result", right=("wall time", "progress"))
    for facts in found:
        path = facts.path.relative_to(folder) if facts.path != folder else facts.path
        state = f"{facts.state} ({facts.part})" if facts.part else facts.state
        progress = steps_done(facts.steps, facts.total_steps, facts.unit)
        last = _cut(facts.error) if facts.state == "failed" else facts.result_text() or "none yet"
        table.add_row(str(path), state, date_text(facts.began), duration(facts.wall_s), progress, last)
    return table


def _facts(facts: Sequence[RunFacts]) -> Iterator[tuple[str, list[str]]]:
    from ludus.reports.number_text import duration, steps_done

    yield "state", [f"{each.state} ({each.part})" if each.part else each.state for each in facts]
    yield "started", [date_text(each.began) for each in facts]
    yield "wall time", [duration(each.wall_s) for each in facts]
    yield "progress", [steps_done(each.steps, each.total_steps, each.unit) for each in facts]


def _value(name: str, value: float) -> str:
    from ludus.reports.run_facts import value_text

    return value_text(name.partition(" ")[0], value)


def _labels(paths: Sequence[Path]) -> list[str]:
    """The names of the folders; the whole paths where two have the same."""
    names = [path.resolve().name for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]


def _shown(value: Any) -> str:
    return "" if value is None else _cut(value if isinstance(value, str) else json.dumps(value))


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MOST_CHARACTERS else f"{line[: MOST_CHARACTERS - 1]}…"


def _table(*columns: str, right: Sequence[str] = ()) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", no_wrap=True)
    return table


def _print(table: Table) -> None:
    """As wide as it is: a terminal wraps, and a pipe has no width."""
    from rich.console import Console

    Console(width=max(Console().width, 1000) if not Console().is_terminal else None).print(table)
