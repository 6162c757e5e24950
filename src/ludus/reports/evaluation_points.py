"""Evaluations of a run as points with their 95 % intervals, from the metric lines that have any."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from ludus.reports.curves import DEFAULT, headline, interval, matches
from ludus.storage.jsonl import read_jsonl

MENTIONS = ("evaluate/", "psro/nash_conv")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationPoint:
    """One measure at one step."""

    name: str
    step: float
    time: float
    value: float
    low: float | None = None
    high: float | None = None
    """The ends of its 95 % interval; None where the line does not tell how much it is of."""
    count: float | None = None
    """Games or tasks that it is of."""


def read_evaluation_points(metrics: Path) -> list[EvaluationPoint]:
    """Every point of what evaluations measure, in the order of the file; of a step done twice the later counts."""
    found: dict[tuple[str, float], EvaluationPoint] = {}
    for mention in MENTIONS:
        for line in read_jsonl(metrics, mention=mention):
            for point in _points(line):
                found.pop((point.name, point.step), None)
                found[point.name, point.step] = point
    return sorted(found.values(), key=lambda point: (point.name, point.step))


def _points(line: Mapping[str, Any]) -> Iterator[EvaluationPoint]:
    step, at = _number(line.get("step")), _number(line.get("time"))
    if step is None:
        return
    for name in dict.fromkeys(headline(name, line) for name in line if matches(name, DEFAULT)):
        value = _number(line.get(name))
        if value is None:
            continue
        try:
            ends = interval(name, line)
        except ValueError:  # a share beyond 0 and 1
            ends = None
        low, high = ends or (None, None)
        path = name.rpartition("/")[0]
        count = _number(line.get(f"{path}/games")) or _number(line.get(f"{path}/tasks"))
        yield EvaluationPoint(name=name, step=step, time=at or 0.0, value=value, low=low, high=high, count=count)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and isfinite(value) else None
