"""`ludus bench loop`: steps trained per CPU-second, end to end, beside Stable-Baselines3 in one interleaved run.

Connect Four, 128x128 network, minibatch 256, 4 epochs, one compute thread per process. A ludus step is one ply of
self-play that was trained on; an SB3 step is one move of its only seat.
"""

from __future__ import annotations

import statistics
import sys

from ludus.bench.figure import Figure
from ludus.bench.fresh_process import run_side

SIDES = ("sb3", "fused", "fused_sharded", "split_sync", "split_async", "explore_only", "train_only")
UNIT = "steps per CPU-second"


def bench_loop(*, rounds: int, seconds: float) -> list[Figure]:
    """Run all sides in turn, `rounds` times, and report medians."""
    results: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    for number in range(rounds):
        for side in SIDES:
            print(f"round {number + 1} of {rounds}: {side}", file=sys.stderr)
            results[side].append(run_side("ludus.bench.sides", side, seconds=seconds))
    cpu = {side: statistics.median(r["steps"] / r["cpu_s"] for r in runs) for side, runs in results.items()}
    wall = {side: statistics.median(r["steps"] / r["wall_s"] for r in runs) for side, runs in results.items()}
    slower = min(wall["explore_only"], wall["train_only"])
    return [
        Figure.against("pgx, fused", cpu["fused"], UNIT, "SB3 PPO", cpu["sb3"]),
        Figure.against("pgx, fused, 2 shards", wall["fused_sharded"], "steps per second", "1 shard", wall["fused"]),
        Figure.against("open_spiel, split, sync", cpu["split_sync"], UNIT, "SB3 PPO", cpu["sb3"]),
        Figure.against("open_spiel, split, async", cpu["split_async"], UNIT, "SB3 PPO", cpu["sb3"]),
        Figure.alone("explore only", wall["explore_only"], "steps per second"),
        Figure.alone("train only", wall["train_only"], "steps per second"),
        Figure.against("async throughput", wall["split_async"], "steps per second", "slower of the two", slower),
    ]
