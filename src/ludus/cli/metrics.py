"""`ludus metrics`: what a metric means."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def metrics(
    name: Annotated[str, typer.Argument(help="A metric, or a word to look for. Without it: all.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object: unit and meaning by name.")] = False,
) -> None:
    """Explain metrics: meaning and unit.

    \b
    Examples:
      ludus metrics train/approx_kl
      ludus metrics staleness
    """
    from ludus.errors import ConfigError
    from ludus.telemetry.metric_table import METRICS, search_metrics

    found = search_metrics(name) if name else list(METRICS)
    if not found:
        raise ConfigError(f"no metric has {name!r} in its name or meaning; all of them: ludus metrics")
    if as_json:
        table = {metric.name: {"unit": metric.unit, "meaning": metric.meaning} for metric in found}
        typer.echo(json.dumps(table, indent=1, ensure_ascii=False))
        return
    width = max(len(metric.name) for metric in found)
    for metric in found:
        typer.echo(f"{metric.name:<{width}}  {metric.meaning}  [{metric.unit}]")
