"""Runs as people read them: tables, charts and texts."""

from typing import TYPE_CHECKING

from ludus.lazy import import_later

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

__getattr__ = import_later(__name__)
