"""`ludus replay`: watch a recorded episode move by move."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ludus.cli.arguments import GamePlugins, open_run
from ludus.errors import ConfigError
from ludus.plugins import load_plugins

if TYPE_CHECKING:
    from ludus.records import Episode


def replay(
    run: Annotated[Path, typer.Argument(help="Directory of the run.")],
    episode: Annotated[str, typer.Argument(help="Episode id (or its beginning), or `last`.")] = "last",
    plugin: GamePlugins = None,
    moves_only: Annotated[bool, typer.Option("--moves", help="Print the moves without the positions.")] = False,
) -> None:
    """Replay a recorded episode from its seed and moves. `ludus inspect RUN` lists episodes.

    Example: ludus replay runs/connect_four last
    """
    from ludus.games.episode_text import episode_lines

    load_plugins(plugin or [])
    directory, _ = open_run(run)
    found = find_episode(directory.path, episode)
    task = found.task
    seats = ", ".join(f"{seat}: {who.policy}{' (greedy)' if who.greedy else ''}" for seat, who in enumerate(task.seats))
    typer.echo(f"episode {found.id}  {task.game}  seed {task.seed}  {task.purpose}  {seats}")
    if found.error:
        typer.echo(f"it failed: {found.error}")
    for line in episode_lines(found, moves_only=moves_only):
        typer.echo(line)


def find_episode(run: Path, wanted: str) -> Episode:
    """The recorded episode with this id or the only one that begins with it."""
    from ludus.storage.arrow import episodes_from_table
    from ludus.storage.segment_reader import SegmentReader

    newest = None
    matches = []
    for _, table in SegmentReader(run / "episodes").scan():
        ids = table.column("id").to_pylist()
        if ids:
            newest = table.slice(len(ids) - 1, 1)
        matches += [table.slice(row, 1) for row, text in enumerate(ids) if text.startswith(wanted)]
    if wanted == "last":
        matches = [newest] if newest is not None else []
    if len(matches) != 1:
        count = "no recorded episode" if not matches else f"{len(matches)} episodes"
        raise ConfigError(f"{count} of {run} match {wanted!r}; list them with: ludus inspect {run}")
    return episodes_from_table(matches[0])[0]
