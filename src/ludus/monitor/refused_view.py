"""What a run refused: counts by reason, over the tasks that it played, and samples that a person can judge.

Invariant: bounded, and tolerant of everything that a directory may hold: what cannot be read is named in `problems`.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, deque
from typing import Any

from ludus.config import RunConfig
from ludus.errors import LudusError
from ludus.experience import KeptRows
from ludus.experience.kept_rows import StoredRow, stored_rows, view_row
from ludus.orchestrator.loader_watch import read_refusals
from ludus.reports.run_text import find_decoder
from ludus.storage.catalog import GLANCE_S, Catalog
from ludus.storage.jsonl import read_jsonl
from ludus.storage.run_directory import RunDirectory

BUCKETS = 24
SAMPLES = 5
"""Of each reason."""
MOST_ROWS = 200_000
MOST_REASONS = 50
MOST_TEXT = 4000


def read_refused(run: RunDirectory, config: RunConfig) -> dict[str, Any]:
    """Everything that was refused."""
    problems: list[str] = []
    counts, examples, quarantined = _of_catalog(run, problems)
    over_time, samples = _of_rows(run, config, problems)
    data, _ = read_refusals(run.refused_chunks)
    return {
        "counts": counts,
        "examples": examples,
        "over_tasks": over_time,
        "samples": samples,
        "data": {"counts": data, "newest": list(deque(read_jsonl(run.refused_chunks), SAMPLES))[::-1] if data else []},
        "quarantined": quarantined,
        "problems": problems,
    }


def _of_catalog(run: RunDirectory, problems: list[str]) -> tuple[dict[str, int], dict[str, str], list[dict[str, str]]]:
    try:
        with Catalog.open_readonly(run.catalog, patience_s=GLANCE_S) as catalog:
            rows = catalog.query("SELECT source, reason FROM quarantined ORDER BY id DESC LIMIT 100")
            moved = [{"file": str(source).rpartition("/")[2], "reason": str(reason)} for source, reason in rows]
            return catalog.refused(), catalog.refused_examples(), moved
    except (LudusError, sqlite3.Error, OSError) as error:
        problems.append(str(error))
        return {}, {}, []


def _of_rows(run: RunDirectory, config: RunConfig, problems: list[str]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Counts by reason over task numbers, and the newest samples of each reason."""
    kept = KeptRows(run.path)
    if kept.passed_over:
        problems.append(f"{kept.passed_over} damaged segments are passed over")
    seen: list[tuple[int, str]] = []
    chosen: dict[str, list[StoredRow]] = {}
    for rows in kept.scan_refused(newest_first=True):
        reasons, tasks = rows.sequences["reason"].tolist(), rows.sequences["task"].tolist()
        seen += zip(tasks, reasons, strict=True)
        for place in range(len(rows) - 1, -1, -1):
            here = chosen.setdefault(reasons[place], []) if len(chosen) < MOST_REASONS else chosen.get(reasons[place])
            if here is not None and len(here) < SAMPLES:
                here += stored_rows(rows.take([place]), "refused")
        if len(seen) >= MOST_ROWS:
            problems.append(f"only the newest {len(seen):,} refused rows are counted over time")
            break
    try:
        decode = find_decoder(run, config)
    except LudusError as error:
        problems.append(f"no text: {error}")
        decode = None
    samples = [_bounded(view_row(row, decode)) for _, rows in sorted(chosen.items()) for row in rows]
    return _histogram(seen), samples


def _histogram(seen: list[tuple[int, str]]) -> dict[str, Any]:
    """Counts of each reason in equal parts of the task numbers."""
    if not seen:
        return {"from": [], "width": 0, "counts": {}}
    first, last = min(task for task, _ in seen), max(task for task, _ in seen)
    width = max(1, -(-(last - first + 1) // BUCKETS))
    counted = Counter(((task - first) // width, reason) for task, reason in seen)
    buckets = range((last - first) // width + 1)
    reasons = sorted({reason for _, reason in seen})[:MOST_REASONS]
    return {
        "from": [first + width * bucket for bucket in buckets],
        "width": width,
        "counts": {reason: [counted[bucket, reason] for bucket in buckets] for reason in reasons},
    }


def _bounded(view: dict[str, Any]) -> dict[str, Any]:
    """A row without endless texts or lists."""
    return {name: value[:MOST_TEXT] if isinstance(value, str | list) else value for name, value in view.items()}
