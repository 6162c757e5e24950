"""`/api/compare`: several runs side by side. Curves by label, seeds as mean and band; keys and results that differ."""

from __future__ import annotations

from typing import Any

import numpy as np
from starlette.requests import Request

from ludus.errors import LudusError
from ludus.monitor.run_index import read_row
from ludus.reports.buckets import Numbers, bucket
from ludus.reports.comparison import config_keys, differing_keys, shared_results
from ludus.reports.curves import align
from ludus.storage.run_directory import find_run
from ludus.telemetry.metric_table import find_metric
from ludus.web.answers import Refused
from ludus.web.api.metrics import AXES, BUCKETS, EPISODES, MOST_BUCKETS, Axis
from ludus.web.api.runs import GROUPS
from ludus.web.query import choice, number, text, texts, whole
from ludus.web.routes import Route, reading
from ludus.web.site import Site

MOST_RUNS = 24
SMOOTH = 1000
"""Points of each run's curve that a mean is made of."""


def tell_differences(site: Site, request: Request) -> dict[str, Any]:
    """Rows of the runs, the keys of their configs that differ, their results, and the metrics that any of them has."""
    ids = _ids(request)
    rows = [read_row(site.folder.find(id), id) for id in ids]
    problems, configs = [], []
    for id in ids:
        try:
            configs.append(config_keys(find_run(site.folder.find(id)).path))
        except (LudusError, OSError) as error:
            configs.append({})
            problems.append(f"{id}: {str(error).partition(chr(10))[0]}")
    facts = [row.facts for row in rows if row.facts is not None]
    results = list(shared_results(facts)) if len(facts) == len(rows) else []
    names: dict[str, int] = {}
    for id in ids:
        for name in site.columns.newest(site.folder.open(id).metrics)[0]:
            names[name] = names.get(name, 0) + 1
    return {
        "rows": [row.to_json() for row in rows],
        "config": [{"key": key, "values": values} for key, values in differing_keys(configs)],
        "results": [{"name": name, "values": values} for name, values in results],
        "metrics": [{"name": name, "runs": count} for name, count in sorted(names.items())],
        "problems": problems,
    }


def tell_curves(site: Site, request: Request) -> dict[str, Any]:
    """One metric of several runs: a curve for each, or, with `label`, the mean of those that share it in their band."""
    ids, name = _ids(request), text(request, "name")
    axis, label = choice(request, "x", AXES), choice(request, "label", GROUPS)
    count = whole(request, "buckets", BUCKETS, least=2, most=MOST_BUCKETS)
    low, high = number(request, "from"), number(request, "to")
    groups: dict[str, list[tuple[Numbers, Numbers]]] = {}
    missing, problems = [], []
    for id in ids:
        run = site.folder.open(id)
        found = site.columns.curves(run.metrics, [name, EPISODES])
        along = Axis(axis, run, found[EPISODES])
        steps, times, values = found[name]
        if along.problem:
            problems.append(f"{id}: {along.problem}")
        elif not len(steps):
            missing.append(id)
        else:
            row = read_row(site.folder.find(id), id).to_json()
            groups.setdefault(str(row.get(label, "")) if label else id, []).append((along.place(steps, times), values))
    metric = find_metric(name)
    return {
        "x": axis,
        "name": name,
        "meaning": "" if metric is None else metric.meaning,
        "unit": "" if metric is None else metric.unit,
        "groups": [{"label": key, **_joined(several, count, low, high)} for key, several in groups.items()],
        "missing": missing,
        "problems": problems,
    }


def _joined(curves: list[tuple[Numbers, Numbers]], count: int, low: float | None, high: float | None) -> dict[str, Any]:
    """One curve as it is; of several the mean, from the least to the greatest, where all of them have begun."""
    made = [bucket(x, y, max(count, SMOOTH) if len(curves) > 1 else count, low, high) for x, y in curves]
    made = [each for each in made if len(each.x)]
    if not made:
        return {"runs": len(curves), "x": [], "low": [], "mean": [], "high": []}
    if len(made) == 1:
        parts = {part: getattr(made[0], part).tolist() for part in ("x", "low", "mean", "high")}
        return {"runs": 1, **parts}
    steps, values = align([np.column_stack((each.x, each.mean)).tolist() for each in made])
    keep = np.unique(np.linspace(0, len(steps) - 1, min(count, len(steps))).astype(int))
    return {
        "runs": len(made),
        "x": steps[keep].tolist(),
        "low": values.min(axis=0)[keep].tolist(),
        "mean": values.mean(axis=0)[keep].tolist(),
        "high": values.max(axis=0)[keep].tolist(),
    }


def _ids(request: Request) -> list[str]:
    ids = texts(request, "run")
    if not 1 <= len(ids) <= MOST_RUNS:
        raise Refused(f"run: expected 1 to {MOST_RUNS} runs, got {len(ids)}")
    return ids


ROUTES = (
    Route(pattern="/api/compare", handler=reading(tell_differences)),
    Route(pattern="/api/compare/series", handler=reading(tell_curves)),
)
