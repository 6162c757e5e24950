"""Runs as people read them: tables, charts and texts."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ludus.reports.curves import read_curves
    from ludus.reports.ladder import LadderRow, standing_of_run
    from ludus.reports.league_tables import ladder_table, payoff_table
    from ludus.reports.number_text import clean, duration, short
    from ludus.reports.population_standing import PopulationStanding
    from ludus.reports.sparklines import sparkline

__all__ = [
    "LadderRow",
    "PopulationStanding",
    "clean",
    "duration",
    "ladder_table",
    "payoff_table",
    "read_curves",
    "short",
    "sparkline",
    "standing_of_run",
]

_HOMES = {
    "LadderRow": "ladder",
    "PopulationStanding": "population_standing",
    "clean": "number_text",
    "duration": "number_text",
    "ladder_table": "league_tables",
    "payoff_table": "league_tables",
    "read_curves": "curves",
    "short": "number_text",
    "sparkline": "sparklines",
    "standing_of_run": "ladder",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
