"""`ludus chess chunks`: make training chunks from PGN, look at them, count them, check them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ludus.cli.arguments import AsJson
from ludus.cli.chess_games import Out, Tar, file_name
from ludus.errors import ConfigError
from ludus.extras import need_packages

EXIT_UNSOUND = 1
MOST_LISTED = 1000

Paths = Annotated[list[Path], typer.Argument(help="Chunks (.gz), tars of chunks, or directories of them.")]


def from_pgn(
    files: Annotated[list[Path], typer.Argument(help="PGN files.")],
    out: Out = Path("chunks"),
    prefix: Annotated[
        str | None, typer.Option(help="How names of files begin. Default: the first file's name.")
    ] = None,
    tar: Tar = 0,
    min_plies: Annotated[int, typer.Option(min=1, help="Leave shorter games out.")] = 2,
) -> None:
    """Make training chunks of the games in PGN files: the moves played are the policy, the results the values.

    Games that cannot be used are left out, and named with file, line and reason.

    Example: ludus chess chunks from-pgn games.pgn --out chunks
    """
    need_packages("ludus chess", "ludus_chess")
    from ludus.chess import chunks
    from ludus.chess.chunk_writer import ChunkWriter

    said = 0
    done = chunks.FromPgn()
    with ChunkWriter(folder=out, prefix=prefix or file_name(files[0].stem), games_per_tar=tar) as writer:
        for done in chunks.from_pgn(files, writer, min_plies=min_plies):
            for problem in done.problems[said : min(len(done.problems), MOST_LISTED)]:
                typer.echo(problem, err=True)
            said = len(done.problems)
    typer.echo(f"{done.games:,} games, {done.positions:,} positions in {out}; {len(done.problems):,} games left out")
    if not done.games:
        raise typer.Exit(EXIT_UNSOUND)


def dump(
    path: Annotated[Path, typer.Argument(help="A chunk (.gz), or a tar of them.")],
    game: Annotated[int, typer.Option(min=0, help="Which game of a tar, counted from 0.")] = 0,
    first: Annotated[int, typer.Option(min=0, help="First position to show.")] = 0,
    count: Annotated[int, typer.Option(min=1, help="Positions to show.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """Show the positions of one game: board, moves with their probabilities, values.

    Example: ludus chess chunks dump chunks/stockfish_000000000.gz --first 20 --count 2
    """
    need_packages("ludus chess", "ludus_chess")
    from itertools import islice

    from ludus.chess import chunks
    from ludus.chess.chunk_files import read_chunks

    chunk = next(islice(read_chunks([path]), game, None), None)
    if chunk is None:
        raise ConfigError(f"{path} has no game {game}; games are counted from 0")
    if problem := chunks.problem_of(chunk):
        raise ConfigError(problem)
    records = chunks.game_of(chunk)
    for number in range(first, min(first + count, len(records))):
        facts = {"position": number, "of": len(records), **chunks.describe(records[number])}
        if as_json:
            typer.echo(json.dumps(facts))
            continue
        typer.echo(f"{chunk.source}  position {number} of {len(records)}")
        typer.echo(chunks.board_of(records[number]))
        for name, value in list(facts.items())[2:]:
            shown = (
                ", ".join(f"{move} {share:.3f}" for move, share in value.items()) if isinstance(value, dict) else value
            )
            typer.echo(f"  {name:<14}{shown}")


def stats(paths: Paths, as_json: AsJson = False) -> None:
    """Count games, positions, results, versions, visits and the policy's entropy.

    Example: ludus chess chunks stats chunks
    """
    need_packages("ludus chess", "ludus_chess")
    from ludus.chess import chunks

    found = chunks.stats(paths).to_json()
    if as_json:
        typer.echo(json.dumps(found, indent=1))
        return
    for name, value in found.items():
        shown = (
            ", ".join(f"{key}: {count:,}" for key, count in value.items()) if isinstance(value, dict) else f"{value:,}"
        )
        typer.echo(f"{name.replace('_', ' '):<22}{shown}")


def check(paths: Paths) -> None:
    """Check chunks as lc0's training does, and that each position follows from the one before it by the move played.

    Problems are listed with file, offset and reason; the exit code is 1 if there are any.

    Example: ludus chess chunks check chunks
    """
    need_packages("ludus chess", "ludus_chess")
    from ludus.chess import chunks

    checked = chunks.Checked()
    for problem in chunks.check(paths, checked):
        typer.echo(problem, err=True)
    typer.echo(
        f"{checked.chunks:,} chunks, {checked.positions:,} positions: "
        f"{checked.refused:,} refused, {checked.repeated:,} repeated"
    )
    if checked.refused or not checked.chunks:
        raise typer.Exit(EXIT_UNSOUND)
