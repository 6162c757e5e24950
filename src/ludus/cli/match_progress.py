"""How far a match is, on stderr: a bar in a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn as Bar
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

PLAIN_EVERY_S = 5.0


@contextmanager
def following(games: int) -> Iterator[Callable[[int], None]]:
    """Gives a function that is told how many games are over."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield PlainProgress(games)
        return
    columns = (TextColumn("playing"), Bar(), MofNCompleteColumn(), TextColumn("games"), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("playing", total=games)
        yield lambda done: progress.update(task, completed=done)


class PlainProgress:
    """A line every few seconds; nothing for a match that is over sooner."""

    def __init__(self, games: int) -> None:
        self._games = games
        self._last = time.monotonic()

    def __call__(self, done: int) -> None:
        """Say how many games are over, when it is time."""
        if done < self._games and time.monotonic() - self._last >= PLAIN_EVERY_S:
            self._last = time.monotonic()
            print(f"{done:,} of {self._games:,} games", file=sys.stderr, flush=True)
