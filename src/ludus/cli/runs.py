"""What the commands that look at a run share: finding it and its config."""

from __future__ import annotations

from pathlib import Path

import typer

from ludus.config import RunConfig, load_config
from ludus.errors import ConfigError
from ludus.storage.run_directory import RunDirectory, StagedDirectory, find_run


def open_run(path: Path) -> tuple[RunDirectory, RunConfig]:
    """A run's directory and config; bad input when there is no run.

    Of a run in stages that is the newest of them, and people are told so.
    """
    run = find_run(path)
    if not run.is_run():
        children = path.parent.iterdir() if path.parent.is_dir() else ()
        here = sorted(
            child.name for child in children if RunDirectory(child).is_run() or StagedDirectory(child).is_staged()
        )
        hint = f"; runs in {path.parent}: {', '.join(here)}" if here else "; start one with: ludus run"
        raise ConfigError(f"{path} is not a run directory{hint}")
    if run.path != path:
        typer.echo(f"{path} has stages; this is {run.path}", err=True)
    run.open()
    return run, load_config(run.config)
