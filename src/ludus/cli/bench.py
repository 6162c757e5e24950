"""`ludus bench`: measure beside what users would pick instead."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

import ludus.bench
from ludus.errors import ConfigError

if TYPE_CHECKING:
    from ludus.bench import Figure

NAMES = ("store", "loop", "lm", "loader", "telemetry", "watch", "tui", "web", "scale", "runtime")


def bench(
    name: Annotated[str, typer.Argument(help=f"What to measure: {', '.join(NAMES)}.")],
    rounds: Annotated[
        int, typer.Option(help="Interleaved rounds; medians are told. 0 of web: memory alone.", min=0)
    ] = 3,
    seconds: Annotated[float, typer.Option(help="Seconds per side and round.")] = 10.0,
    minutes: Annotated[float, typer.Option(help="Of live news, where memory is looked at (web alone).", min=0.0)] = 2.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object: figures by name.")] = False,
) -> None:
    """Measure a part of ludus and its peer in one interleaved run, per CPU-second.

    Example: ludus bench loop --json
    """
    if name not in NAMES:
        raise ConfigError(f"no benchmark is called {name!r}; there are: {', '.join(NAMES)}")
    if rounds < 1 and name != "web":
        raise ConfigError(f"--rounds 0: {name} needs one or more")
    measure = getattr(ludus.bench, f"bench_{name}")
    more = {"minutes": minutes} if name == "web" else {}
    figures: list[Figure] = measure(rounds=rounds, seconds=seconds, **more)
    if as_json:
        typer.echo(json.dumps({figure.name: figure.to_json() for figure in figures}, indent=1))
        return
    width = max([34, *(len(figure.name) for figure in figures)])
    for figure in figures:
        peer = f"   {figure.ratio:7.3f} x {figure.peer} ({figure.peer_value:,.0f})" if figure.ratio is not None else ""
        bound = f"   {figure.verdict}" if figure.verdict else ""
        bound += f" ({1000 * figure.cpu_s:,.0f} ms of CPU)" if figure.cpu_s is not None else ""
        typer.echo(f"{figure.name:<{width}} {_rounded(figure.value):>12} {figure.unit}{peer}{bound}")


def _rounded(value: float) -> str:
    """In as many digits as mean something."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"
