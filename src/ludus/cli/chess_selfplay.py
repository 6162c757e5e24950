"""`ludus chess selfplay`: games of a network against itself, as chunks in a directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ludus.cli.chess_games import Forever, Games, Out, Prefix, Reporter, Seed, Tar, ending_well, file_name, how_many
from ludus.extras import NETWORKS, need_packages


def selfplay(
    player: Annotated[str, typer.Argument(help="A run, RUN@VERSION, or a network (.pb.gz).")],
    out: Out = Path("chunks"),
    visits: Annotated[int, typer.Option(min=2, max=1_000_000, help="Visits of the search for each move.")] = 64,
    games: Games = None,
    forever: Forever = False,
    parallel: Annotated[int, typer.Option(min=1, max=4096, help="Games at once, evaluated in one batch.")] = 32,
    temperature: Annotated[float, typer.Option(min=0, help="Moves are drawn from visits ^ (1 / T).")] = 1.0,
    temperature_plies: Annotated[int, typer.Option(min=0, help="Plies after which the best move is played.")] = 30,
    noise: Annotated[float, typer.Option(min=0, max=1, help="Share of Dirichlet noise in the root's priors.")] = 0.25,
    max_plies: Annotated[int, typer.Option(min=2, max=1000, help="Longer games are drawn.")] = 400,
    follow: Annotated[
        bool, typer.Option("--follow", help="Play by the newest version of a run that learns, once there is one.")
    ] = False,
    seed: Seed = 0,
    tar: Tar = 0,
    prefix: Prefix = None,
) -> None:
    """Let a network play itself with a batched PUCT search, and write training chunks (lc0's V6).

    Games that go on while the run publishes a version are finished by that version (--follow).

    Example: ludus chess selfplay runs/chess --visits 64 --games 100 --out chunks
    """
    need_packages("ludus chess", "ludus_chess", *NETWORKS)
    from ludus.chess.chunk_writer import ChunkWriter
    from ludus.chess.evaluators import open_evaluator
    from ludus.chess.newest_network import NewestNetwork
    from ludus.chess.selfplay import SelfplaySettings
    from ludus.chess.selfplay import selfplay as play

    settings = SelfplaySettings(
        visits=visits,
        temperature=temperature,
        temperature_plies=temperature_plies,
        noise=noise,
        max_plies=max_plies,
        parallel=parallel,
    )
    wanted = how_many(games, forever)
    with ending_well():
        newest = NewestNetwork(player, lambda text: typer.echo(text, err=True)) if follow else None
        evaluator = newest() if newest is not None else open_evaluator(player)
        own = file_name(newest.run_name if newest is not None else evaluator.name)
        writer = ChunkWriter(folder=out, prefix=prefix or own, games_per_tar=tar)
        with writer, Reporter(wanted, writer) as report:
            play(evaluator, settings, writer, games=wanted, seed=seed, progress=report, newest=newest)
