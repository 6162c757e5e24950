"""`ludus bench telemetry`: how much longer a step takes because of where metrics go, working or failing.

Each side is a fresh process in which a run with sinks and one without take turns; the median ratio of all rounds is
reported, 1.00 being no change. The first side has no sinks in either run: how far it is from 1.00 is the noise. On a
busy machine the CPU time of the process that trains says more than the clock on the wall.
"""

from __future__ import annotations

import statistics
import sys

from ludus.bench.figure import Figure
from ludus.bench.fresh_process import run_side
from ludus.bench.telemetry_sides import SIDES

PEER = "no sinks"
_NANOSECONDS = 1e9


def bench_telemetry(*, rounds: int, seconds: float) -> list[Figure]:
    """Run all sides in turn, `rounds` times, and report medians."""
    results: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    for number in range(rounds):
        for side in SIDES:
            result = run_side("ludus.bench.telemetry_sides", side, seconds=seconds)
            results[side].append(result)
            found = f"{result['ratio']:.3f}, CPU {result['cpu_ratio']:.3f}, {result['dropped']:.0f} lines lost"
            print(f"round {number + 1} of {rounds}: {side}: {found}", file=sys.stderr)
    wall = [_figure(side, found) for side, found in results.items()]
    return wall + [_figure(side, found, "cpu_") for side, found in results.items()]


def _figure(side: str, results: list[dict[str, float]], clock: str = "") -> Figure:
    keys = (f"{clock}{name}" for name in ("step_s", "alone_s", "ratio"))
    step, alone, ratio = (statistics.median(each[key] for each in results) for key in keys)
    return Figure(
        name=f"{side}, CPU of the trainer" if clock else side,
        value=step * _NANOSECONDS,
        unit="ns per step",
        peer=PEER,
        peer_value=alone * _NANOSECONDS,
        ratio=ratio,
    )
