"""`ludus bench telemetry`: how much longer a step takes because of where metrics go, working or failing.

Each round runs every side once, in turn; a side is compared with the run without sinks of the same round, and the
median of these ratios is reported. 1.00 is no change.
"""

from __future__ import annotations

import statistics
import sys

from ludus.bench.figure import Figure
from ludus.bench.fresh_process import run_side
from ludus.bench.telemetry_sides import SIDES

PEER = "no sinks"


def bench_telemetry(*, rounds: int, seconds: float) -> list[Figure]:
    """Run all sides in turn, `rounds` times, and report median step times."""
    times: dict[str, list[float]] = {side: [] for side in SIDES}
    for number in range(rounds):
        for side in SIDES if number % 2 == 0 else reversed(SIDES):
            print(f"round {number + 1} of {rounds}: {side}", file=sys.stderr)
            result = run_side("ludus.bench.telemetry_sides", side, seconds=seconds)
            times[side].append(1e6 * result["wall_s"] / result["steps"])
    return [_figure(side, times[side], times["none"]) for side in SIDES if side != "none"]


def _figure(side: str, mine: list[float], alone: list[float]) -> Figure:
    ratio = statistics.median(a / b for a, b in zip(mine, alone, strict=True))
    return Figure(
        name=side,
        value=statistics.median(mine),
        unit="us per step",
        peer=PEER,
        peer_value=statistics.median(alone),
        ratio=ratio,
    )
