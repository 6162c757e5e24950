"""`ludus chess play-engine`: games of an engine to learn from, as chunks in a directory."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ludus.errors import ConfigError
from ludus.extras import need_packages

if TYPE_CHECKING:
    from ludus.chess.tally import Tally

PROGRESS_S = 5.0

Out = Annotated[Path, typer.Option(help="Directory for the chunks; made if it is not there.")]
Games = Annotated[int | None, typer.Option(min=1, help="Games to play. Default: 100.")]
UpTo = Annotated[
    int | None, typer.Option(min=1, help="Play until the directory has this many, those of earlier starts included.")
]
Forever = Annotated[bool, typer.Option("--forever", help="Play until interrupted.")]
Seed = Annotated[int, typer.Option(help="Seed of all chance.")]
Tar = Annotated[int, typer.Option(min=0, help="Games in a .tar. 0: a .gz for each game.")]
Prefix = Annotated[str | None, typer.Option(help="How names of files begin. Default: what plays.")]


def play_engine(
    engine: Annotated[str, typer.Argument(help="Name on PATH or path, with settings: stockfish?nodes=100&multipv=4.")],
    out: Out = Path("chunks"),
    games: Games = None,
    up_to: UpTo = None,
    forever: Forever = False,
    processes: Annotated[int, typer.Option(min=1, max=256, help="Engine processes at the same time.")] = 1,
    random_plies: Annotated[int, typer.Option(min=0, max=100, help="Games begin with 0 to N random moves.")] = 4,
    temperature: Annotated[
        float, typer.Option(min=0, help="In centipawns: moves are drawn in proportion to exp(score / T).")
    ] = 20.0,
    temperature_plies: Annotated[int, typer.Option(min=0, help="Plies after which the best move is played.")] = 30,
    policy_temperature: Annotated[
        float, typer.Option(min=0.01, help="In centipawns: of the softmax that makes the policy target.")
    ] = 20.0,
    max_plies: Annotated[int, typer.Option(min=2, max=1000, help="Longer games are drawn.")] = 400,
    seed: Seed = 0,
    tar: Tar = 0,
    prefix: Prefix = None,
) -> None:
    """Let a UCI engine play itself, and write what its searches found as training chunks (lc0's V6).

    The scores of its MultiPV lines are policy targets, its WDL is the value target. Numbers in the names of files go on
    after the largest that is there.

    Example: ludus chess play-engine "stockfish?nodes=100&multipv=4" --games 100 --out chunks
    """
    need_packages("ludus chess", "ludus_chess")
    from ludus.chess.chunk_writer import ChunkWriter
    from ludus.chess.engine_games import GameSettings
    from ludus.chess.engines import parse_engine
    from ludus.chess.play_engine import play_engine as play

    spec = parse_engine(engine)
    settings = GameSettings(
        limit=spec.limit,
        random_plies=random_plies,
        temperature=temperature,
        temperature_plies=temperature_plies,
        policy_temperature=policy_temperature,
        max_plies=max_plies,
    )
    wanted = how_many(games, forever, up_to)
    writer = ChunkWriter(folder=out, prefix=prefix or file_name(spec.program.stem), games_per_tar=tar)
    with ending_well(), writer:
        if up_to is not None:
            wanted = max(up_to - writer.first_number(), 0)
        with Reporter(wanted, writer) as report:
            if wanted != 0:
                play(spec, settings, writer, games=wanted, processes=processes, seed=seed, progress=report)


def how_many(games: int | None, forever: bool, up_to: int | None = None) -> int | None:
    """Games to play; None for no end."""
    if forever + (games is not None) + (up_to is not None) > 1:
        raise ConfigError("--games, --up-to and --forever: write one of them")
    return None if forever else games or 100


def file_name(text: str) -> str:
    """Letters, digits, _ and - of a text."""
    return (
        "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in text).strip("-")[:64] or "game"
    )


@contextmanager
def ending_well() -> Iterator[None]:
    """SIGTERM and SIGINT stop the games at hand; what is written stays, and the command ends with code 0."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("stopped", err=True)
    finally:
        signal.signal(signal.SIGTERM, before)


class Reporter:
    """Says on stderr how far the games are, every few seconds, and at the end."""

    def __init__(self, games: int | None, writer: object) -> None:
        self._of = "" if games is None else f" of {games:,}"
        self._began = self._last = time.monotonic()
        self._tally: Tally | None = None
        self._failure = ""
        self._out = getattr(writer, "folder", "")

    def __enter__(self) -> Reporter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._tally is not None:
            results = ", ".join(f"{result} {count:,}" for result, count in sorted(self._tally.results.items()))
            typer.echo(f"{self._line()}; {results}; in {self._out}", err=True)

    def __call__(self, tally: Tally) -> None:
        """Take what has happened so far."""
        if tally.last_failure != self._failure:
            self._failure = tally.last_failure
            typer.echo(f"a game failed: {tally.last_failure}", err=True)
        self._tally = tally
        if time.monotonic() - self._last >= PROGRESS_S:
            self._last = time.monotonic()
            print(self._line(), file=sys.stderr, flush=True)

    def _line(self) -> str:
        tally = self._tally
        if tally is None:
            return "no games yet"
        rate = tally.positions / max(time.monotonic() - self._began, 1e-9)
        failed = f", {tally.failed:,} failed" if tally.failed else ""
        return f"{tally.games:,}{self._of} games, {tally.positions:,} positions, {rate:,.0f} positions/s{failed}"
