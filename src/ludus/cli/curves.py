"""`ludus curves`: how a run has gone so far, as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def curves(
    run: Annotated[Path, typer.Argument(help="Directory of the run, live or finished.")],
    metric: Annotated[
        list[str] | None, typer.Option(help="Metric or pattern, such as 'train/*'. Default: scores and invalid moves.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File to write, .png or .svg. Default: RUN/curves.png.")] = None,
) -> None:
    """Draw metrics over the steps of a run.

    \b
    Examples:
      ludus curves runs/connect_four
      ludus curves runs/connect_four --metric train/entropy --metric 'train/*_kl' --out /tmp/training.svg
    """
    from ludus.cli.runs import open_run
    from ludus.errors import ConfigError
    from ludus.storage.atomic import write_bytes
    from ludus.telemetry.curves import DEFAULT, draw_curves, read_curves

    directory, config = open_run(run)
    target = out or directory.path / "curves.png"
    if target.suffix not in (".png", ".svg"):
        raise ConfigError(f"--out {target}: expected a file that ends in .png or .svg")
    found = read_curves(directory.path / "metrics.jsonl", metric or DEFAULT)
    if not found:
        raise ConfigError(f"{run} has no metric that matches {', '.join(metric or DEFAULT)} yet")
    write_bytes(target, draw_curves(found, config.name, form=target.suffix[1:]))
    for name, points in found.items():
        typer.echo(
            f"{name}: {points[0][1]:.4g} at step {points[0][0]:,.0f}, {points[-1][1]:.4g} at {points[-1][0]:,.0f}"
        )
    typer.echo(f"picture: {target}")
