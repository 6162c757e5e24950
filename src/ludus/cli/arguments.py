"""What several commands take: options, a config with overrides, the directory of a run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ludus.errors import ConfigError

if TYPE_CHECKING:
    from ludus.config import RunConfig
    from ludus.storage.run_directory import RunDirectory

Run = Annotated[Path, typer.Argument(help="Directory of the run, live or finished.")]
Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY.PATH=VALUE]...", help="Values that replace those of the file.")
]
Plugins = Annotated[list[Path] | None, typer.Option("--plugin", help="Python file that registers your own parts.")]
GamePlugins = Annotated[list[Path] | None, typer.Option("--plugin", help="Python file that registers the run's game.")]
GameKey = Annotated[str | None, typer.Option(help="Which of the run's games. Default: the first.")]
StrictResume = Annotated[bool, typer.Option(help="Refuse to fall back when the newest checkpoint is damaged.")]
SearchNodes = Annotated[
    int,
    typer.Option(
        min=1, max=1_000_000, help="Chess: positions that a network's search evaluates for each move; 1: policy alone."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def hours_of(text: str) -> float:
    """`2h`, `90m`, `1h30m`, `45s` or `1d` in hours."""
    parts = re.fullmatch(r"(?:([\d.]+)d)?(?:([\d.]+)h)?(?:([\d.]+)m)?(?:([\d.]+)s)?", text.strip().lower())
    try:
        numbers = [float(part or 0) for part in parts.groups()] if parts else []
    except ValueError:
        numbers = []
    hours = sum(number * unit for number, unit in zip(numbers, (24, 1, 1 / 60, 1 / 3600), strict=False))
    if not hours:
        raise ConfigError(f"--for: {text!r} is no time; write it as 2h, 90m, 1h30m or 45s")
    return hours


def split_config(first: Path | None, rest: Sequence[str] | None) -> tuple[Path | None, list[str]]:
    """The file, if one was named, and the overrides: `ludus run seed=3` has only the latter."""
    overrides = list(rest or [])
    if first is not None and "=" in str(first) and not first.exists():
        return None, [str(first), *overrides]
    return first, overrides


def check_search(game: object, nodes: int) -> None:
    """Refuse `--nodes` at games whose networks cannot search."""
    from ludus.explore.runners.search_decisions import SearchedGame

    if nodes > 1 and not isinstance(game, SearchedGame):
        raise ConfigError("--nodes: networks search at chess alone; leave it out")


def open_run(path: Path) -> tuple[RunDirectory, RunConfig]:
    """A run's directory and config; bad input when there is no run.

    Of a run in stages that is the newest of them, and people are told so.
    """
    from ludus.config import load_config
    from ludus.runs.plugin_record import recall_plugins

    run = need_run(path)
    if run.path != path:
        typer.echo(f"{path} has stages; this is {run.path}", err=True)
    run.open()
    recall_plugins(run)
    return run, load_config(run.config)


def need_run(path: Path) -> RunDirectory:
    """A run's directory, of a run in stages that of the newest; bad input when there is no run."""
    from ludus.storage.run_directory import RunDirectory, StagedDirectory, find_run

    run = find_run(path)
    if not run.is_run():
        children = path.parent.iterdir() if path.parent.is_dir() else ()
        here = sorted(
            child.name for child in children if RunDirectory(child).is_run() or StagedDirectory(child).is_staged()
        )
        others = f"; runs in {path.parent}: {', '.join(here)}" if here else "; start one with: ludus run"
        raise ConfigError(f"{path} is not a run directory{run.remedy() or others}")
    return run


def games_of(config: RunConfig) -> list[str]:
    """Keys of the games that a run plays, and of those that it is only measured on."""
    keys = [*(game.key for game in config.games), *(game.key for game in config.evaluate.held_out_games)]
    return list(dict.fromkeys(keys))


def choose_game(run: Path, keys: Sequence[str], wanted: str | None, *, none: str) -> str:
    """The key of one of the run's games, by default the first; `none` says what to do where there are none."""
    if not keys:
        raise ConfigError(f"{run} {none}")
    key = wanted or keys[0]
    if key not in keys:
        raise ConfigError(f"{run} does not play {key}; it plays: {', '.join(keys)}")
    return key
