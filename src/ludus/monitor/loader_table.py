"""The trainer's loader as a table: one row for each stage, and what it refused. For every screen that shows a run."""

from __future__ import annotations

from dataclasses import dataclass

from ludus.daemon.messages import LoaderNews, LoaderStageStatus
from ludus.reports.number_text import clean, share_of, short

_BYTES = "_bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRow:
    """One stage, in words."""

    name: str
    load: float
    """Threads that were busy with it."""
    fill: float | None
    """Share of its queue that is full; None where it has no bound."""
    queue: str
    """`74.2k of 100k`; empty where nothing waits."""
    counts: str
    """`chunks 812  refused 3`; what is zero is left out."""


def stage_rows(loader: LoaderNews) -> list[StageRow]:
    """One row for each stage, in the order of the data."""
    return [
        StageRow(
            name=clean(stage.name.replace("_", " ")),
            load=stage.load,
            fill=share_of(stage.length, stage.capacity) if stage.capacity > 0 else None,
            queue=_queue(stage),
            counts="  ".join(_count(name, count) for name, count in stage.counts.items() if count),
        )
        for stage in loader.stages
    ]


def refused_text(loader: LoaderNews) -> str:
    """`12 refused: 9 truncated, 3 bad_move`, most frequent first; empty where nothing was."""
    total = sum(loader.refused.values())
    by_count = sorted(loader.refused.items(), key=lambda item: (-item[1], item[0]))
    reasons = ", ".join(f"{short(count)} {clean(reason)}" for reason, count in by_count)
    return f"{short(total)} refused: {reasons}" if total else ""


def _queue(stage: LoaderStageStatus) -> str:
    if stage.capacity > 0:
        return f"{short(stage.length)} of {short(stage.capacity)}"
    return f"{short(stage.length)} waiting" if stage.length else ""


def _count(name: str, count: int) -> str:
    if name.endswith(_BYTES):
        return f"{clean(name.removesuffix(_BYTES))} {short(count)}B"
    return f"{clean(name.replace('_', ' '))} {short(count)}"
