"""`ludus logs`: what the workers of a run have written, on whatever node they ran."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from ludus.cli.arguments import need_run
from ludus.errors import ConfigError

LOOK_S = 0.25
PIECE_BYTES = 1 << 16
TAIL_BYTES = 1 << 20
"""Of each log, the end alone is read where only its last lines are wanted."""


def logs(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Directory of a run, live or finished.")],
    worker: Annotated[
        list[str] | None, typer.Option("--worker", "-w", metavar="NAME", help="Only this one; may be given again.")
    ] = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Last lines of each log; 0: all of it.")] = 20,
    attempt: Annotated[
        int | None, typer.Option("--attempt", min=1, help="Number of the start. Default: the newest.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C, also in the next start.")] = False,
) -> None:
    """Print the logs of a run's workers: explorers, trainer, and the connection to a Ray cluster.

    A worker is named as its log is: explorer-0, trainer, loop, ray. Logs of workers on other machines are here, too.

    \b
    Examples:
      ludus logs runs/first
      ludus logs runs/first --worker trainer --lines 0
      ludus logs runs/first --worker explorer-0 --follow
    """
    need_run(run)
    names = tuple(worker or ())
    folder = _folder(run, attempt)
    _check(names, folder)
    read: dict[Path, int] = {}
    for line in new_lines(folder, names, read, last=lines):
        typer.echo(line)
    while follow:
        time.sleep(LOOK_S)
        for line in new_lines(_folder(run, attempt), names, read, last=0):
            typer.echo(line)


def _folder(run: Path, attempt: int | None) -> Path:
    """The logs of one start."""
    numbered = ((path.name.removeprefix("attempt_"), path) for path in (run / "logs").glob("attempt_*"))
    found = {int(number): path for number, path in numbered if number.isascii() and number.isdigit() and path.is_dir()}
    if not found:
        raise ConfigError(f"{run} has no logs: it has not been started")
    number = max(found) if attempt is None else attempt
    if number not in found:
        raise ConfigError(f"{run} has no attempt {number}; there are {', '.join(map(str, sorted(found)))}")
    return found[number]


def _check(names: Sequence[str], folder: Path) -> None:
    there = _names(folder)
    for name in names:
        if name not in there:
            raise ConfigError(f"no worker {name} in {folder}; there are {', '.join(there) or 'none'}")


def _names(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.log"))


def new_lines(folder: Path, names: Sequence[str], read: dict[Path, int], *, last: int) -> Iterator[str]:
    """Whole lines that were not read yet; of each log at most the `last` ones, if any bound is given."""
    shown = [name for name in _names(folder) if not names or name in names]
    for name in shown:
        path = folder / f"{name}.log"
        lines = _read_on(path, read, tail=bool(last))
        for line in deque(lines, maxlen=last) if last else lines:
            yield line if len(names) == 1 else f"{name}: {line}"


def _read_on(path: Path, read: dict[Path, int], *, tail: bool) -> Iterator[str]:
    """Lines that have come since the last look; one that is not whole yet waits, unless it is the first look."""
    is_first, rest = path not in read, b""
    with path.open("rb") as file:
        file.seek(read.get(path, max(path.stat().st_size - TAIL_BYTES, 0) if tail else 0))
        while piece := file.read(PIECE_BYTES):
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield _text(line)
            if len(rest) > TAIL_BYTES:  # such a line is shown in parts
                yield _text(rest)
                rest = b""
        if rest and is_first:
            yield _text(rest)
            rest = b""
        read[path] = file.tell() - len(rest)


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r")
