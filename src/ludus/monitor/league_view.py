"""The league of a run, or its population, as plain values: what the terminal prints and what a page draws.

Invariant: what is unknown is null; exploitability says whether it is exact or a lower bound. A catalog or checkpoint
that cannot be read is named in `problems`, and everything else is there.
"""

from __future__ import annotations

import sqlite3
from typing import Any

import numpy as np

from ludus.config import RunConfig
from ludus.errors import LudusError
from ludus.league.payoffs.cells import wilson_interval
from ludus.reports.ladder import PayoffTable, Standing, standing_of_run
from ludus.reports.population_standing import EXACT, PopulationStanding
from ludus.storage.catalog import GLANCE_S, Catalog
from ludus.storage.run_directory import RunDirectory

MOST_MEMBERS = 100
"""Of a payoff table: the fixed players and the best of the rest."""
MOST_GENERATIONS = 500
MOST_LINEAGE = 2000


def read_league(run: RunDirectory, config: RunConfig) -> dict[str, Any]:
    """Ladder, payoffs and, of a population, meta-strategy, lineage and exploitability."""
    view: dict[str, Any] = {"kind": "none", "problems": []}
    try:
        if config.population is not None:
            from ludus.runs.population.standing import standing_of_population

            return {**view, "kind": "population", **view_population(standing_of_population(run, config))}
        with Catalog.open_readonly(run.catalog, patience_s=GLANCE_S) as catalog:
            standing = standing_of_run(catalog)
    except (LudusError, sqlite3.Error, OSError) as error:
        return {**view, "problems": [str(error)]}
    return {**view, "kind": "league" if standing.rows else "none", **view_standing(standing)}


def view_standing(standing: Standing) -> dict[str, Any]:
    """A league's: every number with its interval."""
    shown = standing.most_telling_payoffs(MOST_MEMBERS)
    told = standing.to_json()
    ladder = [
        {**row, "elo_margin": each.elo_margin if each.elo is not None else None}
        for row, each in zip(told["ladder"], standing.rows, strict=True)
    ]
    hidden = len(standing.payoffs.policies) - len(shown.policies)
    return {"ladder": ladder, "payoffs": _payoffs(shown), "hidden": hidden, "fit": told["fit"]}


def view_population(standing: PopulationStanding) -> dict[str, Any]:
    """A population's."""
    told = standing.to_json()
    shown, exploitability = standing.most_telling_payoffs(MOST_MEMBERS), standing.exploitability
    return {
        **told,
        "payoffs": None if shown is None else {**shown.to_json(), "scale": "payoff"},
        "meta_strategies": told["meta_strategies"][-MOST_GENERATIONS:],
        "lineage": told["lineage"][-MOST_LINEAGE:],
        "exploitability": {
            "label": exploitability.label,
            "is_exact": exploitability.metric == EXACT,
            "generations": list(exploitability.generations),
            "values": list(exploitability.values),
        },
    }


def _payoffs(table: PayoffTable) -> dict[str, Any]:
    size = range(len(table.policies))
    score = [[_known(table.score[row, column]) for column in size] for row in size]
    bounds = [
        [
            None if (mean := score[row][column]) is None else wilson_interval(mean, int(table.games[row, column]))
            for column in size
        ]
        for row in size
    ]
    return {
        "scale": "score",
        "rows": list(table.policies),
        "columns": list(table.policies),
        "ranks": list(table.ranks),
        "mean": score,
        "interval": bounds,
        "mean_return": [[_known(table.mean_return[row, column]) for column in size] for row in size],
        "games": table.games.tolist(),
    }


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
