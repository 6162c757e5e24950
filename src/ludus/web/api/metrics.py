"""Curves: which metrics a run has and what they mean, their points in buckets, its evaluations with intervals."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request

from ludus.reports.buckets import bucket
from ludus.reports.evaluation_points import read_evaluation_points
from ludus.storage.jsonl import read_jsonl
from ludus.storage.run_directory import RunDirectory
from ludus.telemetry.metric_table import find_metric
from ludus.web.answers import Refused
from ludus.web.query import choice, number, texts, whole
from ludus.web.routes import Route, reading
from ludus.web.site import Site

AXES = ("step", "time", "tokens", "episodes")
BUCKETS, MOST_BUCKETS, MOST_SERIES = 600, 4000, 32
EPISODES = "loop/episodes"
Numbers = NDArray[np.float64]


def list_metrics(site: Site, request: Request) -> dict[str, Any]:
    """Every metric that the run has told, with its meaning, its unit and its newest value."""
    run = site.folder.open(request.path_params["run"])
    newest, unreadable = site.columns.newest(run.metrics)
    rows = []
    for name, (step, value) in newest.items():
        metric = find_metric(name)
        meaning, unit = ("", "") if metric is None else (metric.meaning, metric.unit)
        rows.append({"name": name, "meaning": meaning, "unit": unit, "step": step, "last": value})
    return {"rows": rows, "unreadable_lines": unreadable}


def tell_series(site: Site, request: Request) -> dict[str, Any]:
    """Curves of some metrics over one axis, bucketed; `missing` names those that are not recorded."""
    run, names = site.folder.open(request.path_params["run"]), texts(request, "name")
    if not names or len(names) > MOST_SERIES:
        raise Refused(f"name: expected 1 to {MOST_SERIES} names of metrics, got {len(names)}")
    return series_of(site, run, names, request)


def series_of(site: Site, run: RunDirectory, names: list[str], request: Request) -> dict[str, Any]:
    """The curves that a request asks for, of one run."""
    axis = choice(request, "x", AXES)
    low, high = number(request, "from"), number(request, "to")
    count = whole(request, "buckets", BUCKETS, least=2, most=MOST_BUCKETS)
    found = site.columns.curves(run.metrics, [*names, EPISODES])
    along = Axis(axis, run, found[EPISODES])
    series = {}
    for name in names:
        steps, times, values = found[name]
        if not len(steps) or along.problem:
            continue
        made = bucket(along.place(steps, times), values, count, low, high)
        series[name] = {
            **{part: getattr(made, part).tolist() for part in ("x", "low", "mean", "high")},
            "points": made.points,
            "is_exact": made.is_exact,
        }
    return {
        "x": axis,
        "series": series,
        "missing": [name for name in names if not len(found[name][0])],
        "problem": along.problem,
    }


class Axis:
    """Places points along one axis."""

    def __init__(self, kind: str, run: RunDirectory, episodes: tuple[Numbers, Numbers, Numbers]) -> None:
        self._kind = kind
        self._episode_steps, _, self._episodes = episodes
        self._starts = _starts(run) if kind == "time" else []
        self.problem = ""
        """Why nothing can be placed along it; empty when it can."""
        if kind == "episodes" and not len(self._episodes):
            self.problem = "this run did not record its episodes along with its metrics"
        if kind == "tokens" and not _counts_tokens(run):
            self.problem = "this run trains a network: it has no tokens"

    def place(self, steps: Numbers, times: Numbers) -> Numbers:
        """Where points lie: rising."""
        if self._kind == "time":
            return self._seconds(times)
        if self._kind == "episodes":
            return np.interp(steps, self._episode_steps, self._episodes)
        return steps

    def _seconds(self, times: Numbers) -> Numbers:
        """Seconds that the run had been going, without the time between its starts."""
        if not len(times):
            return times
        seconds = times - (self._starts[0] if self._starts else times[0])
        for start in self._starts[1:]:
            before = times[times < start]
            if len(before):
                seconds[times >= start] -= start - before[-1]
        return np.fmax.accumulate(np.maximum(seconds, 0.0))  # a clock that was set back


def tell_evaluations(site: Site, request: Request) -> dict[str, Any]:
    """What evaluations measured, by name, with 95 % intervals where it is known how much they are of."""
    run = site.folder.open(request.path_params["run"])
    by_name: dict[str, list[dict[str, Any]]] = {}
    for point in read_evaluation_points(run.metrics):
        by_name.setdefault(point.name, []).append(asdict(point))
    rows = []
    for name, points in by_name.items():
        metric = find_metric(name)
        meaning, unit = ("", "") if metric is None else (metric.meaning, metric.unit)
        rows.append({"name": name, "meaning": meaning, "unit": unit, "points": points})
    return {"rows": rows}


def _starts(run: RunDirectory) -> list[float]:
    """When the run was started, each time."""
    found = [line for line in read_jsonl(run.events) if line.get("event") in ("opened", "started")]
    opened = [line for line in found if line["event"] == "opened"] or found
    return sorted(float(line["time"]) for line in opened if isinstance(line.get("time"), int | float))


def _counts_tokens(run: RunDirectory) -> bool:
    """Runs of language models count their steps in sampled tokens."""
    from ludus.config import load_config

    return load_config(run.config).policy.model is not None


ROUTES = (
    Route(pattern="/api/runs/{run}/metrics", handler=reading(list_metrics)),
    Route(pattern="/api/runs/{run}/series", handler=reading(tell_series)),
    Route(pattern="/api/runs/{run}/evaluations", handler=reading(tell_evaluations)),
)
