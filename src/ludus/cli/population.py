"""What commands say about a run that computes a population."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from ludus.config.run import RunConfig
    from ludus.driving import Status
    from ludus.storage.run_directory import RunDirectory


def unit_of(config: RunConfig) -> str:
    """What a run counts."""
    return "steps" if config.population is None else "generations"


def population_progress(metrics: Mapping[str, float]) -> str:
    """How far a population is from an equilibrium, or how far the tree of its game is walked; empty elsewhere."""
    if "psro/nash_conv" in metrics:
        return f"NashConv {metrics['psro/nash_conv']:.4g}"
    return f"{metrics['psro/histories']:,.0f} histories found" if "psro/histories" in metrics else ""


def decades(curve: list[float]) -> list[float]:
    """NashConv as a sparkline can show it: each of the last five powers of ten below its highest is as high."""
    highest = max(curve)
    return [max(math.log10(value / highest) / 5 + 1, 0.0) if value > 0 else 0.0 for value in curve]


def final_lines(status: Status, events: Path) -> list[str]:
    """How it ended: the last NashConv, what it cost, and why there was no further generation."""
    from ludus.storage.jsonl import read_jsonl

    metrics = status.metrics
    policies = " + ".join(f"{metrics[f'psro/seat_{seat}/policies']:.0f}" for seat in (0, 1))
    ended = [event["reason"] for event in read_jsonl(events) if event.get("event") == "population_done"]
    return [
        f"NashConv {metrics['psro/nash_conv']:.6g} (exact) after {status.steps:,} generations, {policies} policies; "
        f"value of seat 0: {metrics['psro/value']:.6g}; {metrics['psro/cpu_s']:.2f} CPU-seconds of PSRO",
        *([f"no further generation: {ended[-1]}"] if ended else []),
    ]


def show_population(run: RunDirectory, name: str, folder: Path, *, as_json: bool) -> None:
    """Print the meta-strategy and the payoffs of a run, and draw them with the curve of NashConv."""
    from ludus.league.exact.charts import nash_conv_png, payoff_png
    from ludus.league.exact.standing import population_of_run
    from ludus.storage.atomic import ensure_directory, write_bytes

    standing = population_of_run(run)
    ensure_directory(folder)
    pictures = {folder / "nash_conv.png": nash_conv_png, folder / "payoffs.png": payoff_png}
    for path, draw in pictures.items():
        write_bytes(path, draw(standing, name))
    if as_json:
        typer.echo(json.dumps({**standing.to_json(), "pictures": [str(path) for path in pictures]}))
        return
    from rich.console import Console

    from ludus.cli.progress import sparkline
    from ludus.league.exact.tables import meta_strategy_table, payoff_table

    console, curve = Console(), standing.curve.tolist()
    console.print(meta_strategy_table(standing))
    console.print(payoff_table(standing))
    shown = sparkline(decades(curve[:: max(1, len(curve) // 60)]), 0.0, 1.0)
    console.print(f"NashConv {curve[0]:.4g} {shown} {curve[-1]:.4g} (exact)", highlight=False, soft_wrap=True)
    console.print(f"generation {standing.generation}, value of seat 0: {standing.value:.6g}", highlight=False)
    console.print(f"pictures: {'  '.join(map(str, pictures))}", highlight=False, soft_wrap=True)
