"""`ludus league`: the ladder and the payoffs of a run, finished or alive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def league(
    run: Annotated[Path, typer.Argument(help="Directory of the run, live or finished.")],
    png: Annotated[Path | None, typer.Option(help="Folder for the pictures. Default: RUN/league.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show ratings and the payoff matrix, and draw both as PNG and SVG.

    Of a population, computed or learnt, also: the meta-strategy over the generations, exploitability, and who began
    with whose weights.

    Example: ludus league runs/connect_four
    """
    from ludus.cli.runs import open_run
    from ludus.reports.ladder import standing_of_run
    from ludus.storage.catalog import Catalog

    directory, config = open_run(run)
    folder = png or directory.path / "league"
    if config.population is not None:
        from ludus.cli.league_population import show_population
        from ludus.runs.population.standing import standing_of_population

        show_population(standing_of_population(directory, config), config.name, folder, as_json=as_json)
        return
    from ludus.reports.charts import ladder_figure, save_pictures, score_figure

    with Catalog.open_readonly(directory.catalog) as catalog:
        standing = standing_of_run(catalog)
    pictures = save_pictures(
        folder,
        {
            "ladder": ladder_figure(standing, f"{config.name}: ladder"),
            "payoffs": score_figure(standing, f"{config.name}: payoffs"),
        },
    )
    if as_json:
        typer.echo(json.dumps({**standing.to_json(), "pictures": [str(path) for path in pictures]}))
        return
    from rich.console import Console

    from ludus.reports.league_tables import ladder_table, payoff_table

    console = Console()
    console.print(ladder_table(standing))
    console.print(payoff_table(standing))
    console.print(name_pictures(pictures), highlight=False, soft_wrap=True)


def name_pictures(pictures: list[Path]) -> str:
    """Where the pictures are, each named once for all of its forms."""
    names = dict.fromkeys(path.stem for path in pictures)
    forms = dict.fromkeys(path.suffix for path in pictures)
    return f"pictures: {pictures[0].parent}: {', '.join(names)} ({' and '.join(forms)})"
