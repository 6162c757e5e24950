"""Pictures of a league and of a population. Each function returns a figure; `save_pictures` writes them all.

Colours are safe for colour-blind readers, and every colour is doubled by a shape or a number.
"""

from ludus.reports.charts.canvas import render, save_pictures
from ludus.reports.charts.generations import exploitability_figure, lineage_figure, meta_strategy_figure
from ludus.reports.charts.standing import ladder_figure, payoff_figure, population_ladder_figure, score_figure

__all__ = [
    "exploitability_figure",
    "ladder_figure",
    "lineage_figure",
    "meta_strategy_figure",
    "payoff_figure",
    "population_ladder_figure",
    "render",
    "save_pictures",
    "score_figure",
]
