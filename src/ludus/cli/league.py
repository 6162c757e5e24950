"""`ludus league`: the ladder and the payoffs of a run, finished or alive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ludus.league import Standing


def league(
    run: Annotated[Path, typer.Argument(help="Directory of the run, live or finished.")],
    png: Annotated[Path | None, typer.Option(help="Folder for the pictures. Default: RUN/league.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show who is how good and who beats whom, and draw both as PNG. Of a population: the meta-strategy and payoffs.

    Example: ludus league runs/connect_four
    """
    from ludus.cli.runs import open_run
    from ludus.league import standing_of_run
    from ludus.storage.catalog import Catalog

    directory, config = open_run(run)
    if config.population is not None:
        from ludus.cli.population import show_population

        show_population(directory, config.name, png or directory.path / "league", as_json=as_json)
        return
    with Catalog.open_readonly(directory.catalog) as catalog:
        standing = standing_of_run(catalog)
    pictures = draw(standing, config.name, png or directory.path / "league")
    if as_json:
        typer.echo(json.dumps({**standing.to_json(), "pictures": [str(path) for path in pictures]}))
        return
    from rich.console import Console

    from ludus.league.tables import ladder_table, payoff_table

    console = Console()
    console.print(ladder_table(standing))
    console.print(payoff_table(standing))
    console.print(f"pictures: {'  '.join(map(str, pictures))}", highlight=False, soft_wrap=True)


def draw(standing: Standing, name: str, folder: Path) -> tuple[Path, Path]:
    """Write both pictures; returns where they are."""
    from ludus.league.charts import ladder_png, payoff_png
    from ludus.storage.atomic import ensure_directory, write_bytes

    ensure_directory(folder)
    ladder, payoffs = folder / "ladder.png", folder / "payoffs.png"
    write_bytes(ladder, ladder_png(standing, f"{name}: ladder"))
    write_bytes(payoffs, payoff_png(standing, f"{name}: payoffs"))
    return ladder, payoffs
