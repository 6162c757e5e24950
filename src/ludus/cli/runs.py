"""What the commands that look at a run share: finding it, its config and its policies."""

from __future__ import annotations

from pathlib import Path

import typer

from ludus.config.load import load_config
from ludus.config.run import RunConfig
from ludus.errors import ConfigError
from ludus.policies import PolicyStore
from ludus.records import PolicyRef
from ludus.storage.run_directory import RunDirectory
from ludus.storage.staged_directory import StagedDirectory, find_run


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


def choose_policy(run: RunDirectory, config: RunConfig, text: str | None) -> PolicyRef:
    """The version that the user named (`main@12` or `12`), or the newest."""
    store = PolicyStore(run.policies)
    names = [config.policy.name, *store.names()]  # of a population, agents may have other names
    versions = next((found for name in names if (found := store.versions(name))), [])
    if not versions:
        raise ConfigError(f"{run.path} has published no policy yet")
    if text is None:
        return versions[-1]
    try:
        wanted = PolicyRef.parse(f"{config.policy.name}@{text}" if text.isdigit() else text)
    except ValueError:
        raise ConfigError(f"--policy {text}: expected a version such as {versions[-1]}") from None
    if not store.has(wanted):
        raise ConfigError(f"no policy {wanted} in {run.path}; there are: {', '.join(map(str, versions))}")
    return wanted
