"""`ludus tui`: watch and steer a run in the terminal."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ludus.cli.arguments import open_run
from ludus.errors import ConfigError

if TYPE_CHECKING:
    from ludus.daemon.messages import Payload
    from ludus.monitor.source import Source

COLOURLESS = ("dumb", "vt100", "vt102", "vt220", "unknown")
"""Terminals that have no colours."""


def tui(
    what: Annotated[
        Path,
        typer.Argument(
            metavar="CONFIG | RUN", help="A YAML file to run, the directory of a run to watch, or a recording (.jsonl)."
        ),
    ],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY.PATH=VALUE]...", help="Values that replace those of the config.")
    ] = None,
    run_dir: Annotated[
        Path | None, typer.Option(help="With a config: where the run lives. Default: runs/<name>.")
    ] = None,
    plugin: Annotated[
        list[Path] | None, typer.Option(help="With a config: Python file that registers your own parts.")
    ] = None,
) -> None:
    """Watch and steer a run: rooms, schedule, training, league, collection, newest episode, log.

    \b
    With a config it starts a daemon of its own, which runs it; quitting saves and stops the run.
    With a run directory it attaches: to a live run (quitting leaves it going), or to a finished one, as it was left.

    \b
    Keys: 1-7 panes   p pause   c checkpoint   e export   x stop   / filter the log   ? help   q quit
          ctrl+p has every command, also `set` and `train now`

    \b
    Examples:
      ludus tui examples/connect_four.yaml train.steps=1000000
      ludus tui runs/connect_four
      ludus daemon < commands.jsonl > messages.jsonl; ludus tui messages.jsonl
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError("ludus tui needs a terminal; in a pipe use: ludus run --json, or ludus daemon")
    if os.environ.get("TERM", "dumb") in COLOURLESS:
        os.environ["NO_COLOR"] = "1"
    source, first = make_source(what, overrides or [], run_dir, plugin or [])
    raise typer.Exit(show(source, first))


def make_source(
    what: Path, overrides: list[str], run_dir: Path | None, plugins: list[Path]
) -> tuple[Source, list[Payload]]:
    """What to listen to, and what to ask first."""
    from ludus.daemon.messages import StartTraining, Subscribe
    from ludus.monitor.live_sources import WANTED, ChildSource
    from ludus.monitor.source import RecordedSource

    if what.is_dir():
        return _attach(what, overrides), []
    if not what.is_file():
        raise ConfigError(f"{what} does not exist; give a config, a run directory or a recording")
    if what.suffix == ".jsonl":
        return RecordedSource(what), []
    start = StartTraining(config=str(what), overrides=tuple(overrides), run_dir=str(run_dir) if run_dir else None)
    named = [part for file in plugins for part in ("--plugin", str(file))]
    daemon = ChildSource([sys.executable, "-P", "-m", "ludus.cli.app", "daemon", *named])
    return daemon, [Subscribe(types=WANTED), start]


def _attach(run_dir: Path, overrides: list[str]) -> Source:
    from ludus.daemon.run_watch import RunWatch
    from ludus.monitor.live_sources import AttachedSource

    if overrides:
        raise ConfigError(f"{overrides[0]}: values are given with a config; {run_dir} is a run that has its own")
    open_run(run_dir)
    return AttachedSource(run_dir, RunWatch)


def show(source: Source, first: list[Payload]) -> int:
    """Run the dashboard until people leave it; returns the exit code. Whatever happens, the source is closed."""
    from ludus.tui.app import Dashboard

    dashboard = Dashboard(source, first=first)
    # Python's own handler would end us between two writes to the terminal, and asyncio's on the way into the dashboard.
    signal.signal(signal.SIGINT, lambda *_: dashboard.leave_soon())
    for name in ("COLUMNS", "LINES"):  # a shell that exports them would fix the size, however the window is pulled
        os.environ.pop(name, None)
    try:
        words = dashboard.run()
    finally:
        ended = source.close()
    cause = [*source.last_log(), dashboard.view.failure] if source.has_failed else [dashboard.view.failure]
    with suppress(OSError):  # the terminal may be closed
        for line in (*cause, words or ended):
            if line:
                typer.echo(line, err=True)
    return dashboard.return_code or int(source.has_failed or bool(dashboard.view.failure))
