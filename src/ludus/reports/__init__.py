"""Runs as people read them: tables, charts and texts."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ludus.reports.curves import read_curves
    from ludus.reports.ladder import LadderRow, standing_of_run
    from ludus.reports.number_text import clean, duration, short, sparkline
    from ludus.reports.population_standing import PopulationStanding
    from ludus.reports.tables import ladder_table, payoff_table

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

_NAMES = {
    "curves": ("read_curves",),
    "ladder": ("LadderRow", "standing_of_run"),
    "number_text": ("clean", "duration", "short", "sparkline"),
    "population_standing": ("PopulationStanding",),
    "tables": ("ladder_table", "payoff_table"),
}
"""By module, which is imported when one of its names is first used."""


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for module, names in _NAMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
