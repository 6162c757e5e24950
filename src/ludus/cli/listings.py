"""What there is: `ludus games`, the games of this machine; `ludus metrics`, and what each means."""

from __future__ import annotations

import json
from dataclasses import asdict
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

import typer

from ludus.cli.arguments import AsJson, Plugins
from ludus.errors import ConfigError
from ludus.plugins import load_plugins

if TYPE_CHECKING:
    from ludus.games import GameListing

HEADER = ("KEY", "PLAYERS", "MOVES", "CHANCE", "INFORMATION", "ACTIONS", "OBSERVATION", "WORDS")


def games(
    pattern: Annotated[
        str, typer.Argument(help="Part of a key, or a pattern such as 'pgx:*'.", show_default=False)
    ] = "",
    in_words: Annotated[bool, typer.Option("--text", help="Only games that language models can play.")] = False,
    show_all: Annotated[bool, typer.Option("--all", help="Also list what cannot be played, and why.")] = False,
    plugin: Plugins = None,
    as_json: AsJson = False,
) -> None:
    """List the games that are installed, and those of a plugin.

    Language models play games with WORDS; games with OBSERVATION "text only" are for them alone.

    \b
    Examples:
      ludus games poker
      ludus games 'textarena:*' --all
      ludus games --plugin my_game.py my_game
    """
    from ludus.games import available_games, available_text_games

    load_plugins(plugin or [])
    listings = sorted([*available_games(), *available_text_games()], key=lambda listing: listing.key)
    found = [listing for listing in listings if _matches(listing.key, pattern) and (listing.in_words or not in_words)]
    playable = [listing for listing in found if listing.ok]
    refused = [listing for listing in found if not listing.ok]
    if not found:
        raise ConfigError(f"no game matches {pattern!r}; `ludus games` lists all")
    if as_json:
        typer.echo(_json(playable, refused if show_all else []))
    else:
        typer.echo(_table(playable, refused, show_all=show_all))


def _matches(key: str, pattern: str) -> bool:
    key, pattern = key.lower(), pattern.lower()
    return fnmatchcase(key, pattern) if any(sign in pattern for sign in "*?[") else pattern in key


def _json(playable: list[GameListing], refused: list[GameListing]) -> str:
    unavailable = [{"key": listing.key, "reason": listing.reason} for listing in refused]
    rows = [{name: value for name, value in asdict(listing).items() if name != "reason"} for listing in playable]
    return json.dumps({"games": rows, "unavailable": unavailable}, indent=2)


def _table(playable: list[GameListing], refused: list[GameListing], *, show_all: bool) -> str:
    lines = _aligned([HEADER, *(_row(listing) for listing in playable)]) if playable else []
    lines += ["", f"{len(playable)} games can be played."]
    if refused and (show_all or not playable):
        lines += ["", "Not available:", *_aligned([(f"  {listing.key}", listing.reason) for listing in refused])]
    elif refused:
        lines[-1] += f" {len(refused)} cannot: --all says why."
    return "\n".join(lines).strip("\n")


def _row(listing: GameListing) -> tuple[str, ...]:
    shape = listing.observation_shape
    return (
        listing.key,
        listing.players,
        listing.dynamics,
        "-" if listing.has_chance is None else "yes" if listing.has_chance else "no",
        listing.information or "-",
        "-" if listing.actions is None else str(listing.actions),
        "-" if shape is None else "x".join(map(str, shape)) or "text only",
        "yes" if listing.in_words else "no",
    )


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


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
