"""`ludus bench loop`: steps trained per CPU-second, end to end, beside Stable-Baselines3 in one interleaved run.

Connect Four, 128x128 network, minibatch 256, 4 epochs, one compute thread per process. A ludus step is one ply of
self-play that was trained on; an SB3 step is one move of its only seat.

A side measures steps, CPU-seconds (whole process tree) and wall-seconds after the warm-up.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ludus.bench.measuring import Figure, Measured, run_rounds, run_this_side, tree_cpu_s
from ludus.runtime import limit_threads

UNIT = "steps per CPU-second"
WARM_UP_UPDATES = 3
MEASURED_UPDATES = 3
"""At least."""
SHARED = """
seed: 1
policy: {network: {kind: mlp, hidden: [128, 128]}}
evaluate: {games: 0, final_games: 0, every: 1000000000000, against: []}
telemetry: {tensorboard: false}
league: {snapshot_every: 1000000000000}
"""
TRAIN = "steps: 1000000000000, minibatch: 256, epochs: 4"
FUSED = f"""
name: bench_fused
games: [pgx:connect_four]
topology: fused
explore: {{games_in_flight: 512}}
train: {{{TRAIN}}}
"""
SHARDED = FUSED.replace("epochs: 4", "epochs: 4, shards: 2")
SPLIT = f"""
name: bench_split
games: [open_spiel:connect_four]
topology: split
explore: {{games_in_flight: 256, workers: 1}}
train: {{{TRAIN}, batch_episodes: 768}}
"""
ASYNC = SPLIT + "schedule: async\n"
STOCKED = ASYNC.replace("epochs: 4", "epochs: 4, max_staleness: 1000000000") + (
    "buffer: {capacity: 8192, reuse: 1000000000}\n"
)
"""What train-only needs to go on for ever with what was explored once."""


def bench_loop(*, rounds: int, seconds: float) -> list[Figure]:
    """Run all sides in turn, `rounds` times, and report medians."""
    results: dict[str, list[Measured]] = {side: [] for side in SIDES}
    for side, measured in run_rounds("ludus.bench.loop", list(SIDES), rounds=rounds, seconds=seconds):
        results[side].append(measured)
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


def run_loop(
    seconds: float, *stages: str, shared: str = SHARED, plugins: Sequence[str] = (), devices: int = 1
) -> Measured:
    """Steps of a real run, from after its warm-up on; stages before the last are run to their end first."""
    limit_threads(devices, os.environ, devices=devices)
    from ludus.config import parse_config
    from ludus.runs import SingleRun

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        run = Path(folder) / "run"
        for earlier in stages[:-1]:
            SingleRun(parse_config(earlier + shared, "bench.yaml"), run).run_to_end()
        loop = SingleRun(parse_config(stages[-1] + shared, "bench.yaml"), run, plugins=plugins)
        loop.start()
        first = wait_for(loop, lambda status: status.stage == "training").update + WARM_UP_UPDATES
        # From the end of one update to the end of another: an update of a large batch is most of a short measurement.
        steps = wait_for(loop, lambda status: status.update >= first).steps
        cpu, wall = tree_cpu_s(), time.perf_counter()
        last = wait_for(loop, lambda status: time.perf_counter() - wall >= seconds).update
        last = max(last + 1, first + MEASURED_UPDATES)
        status = wait_for(loop, lambda status: status.update >= last)
        figures = {
            "steps": status.steps - steps,
            "cpu_s": tree_cpu_s() - cpu,
            "wall_s": time.perf_counter() - wall,
        }
        loop.stop()
        loop.wait(60)
    return figures


def wait_for(loop: Any, is_reached: Callable[[Any], bool]) -> Any:
    """Poll a loop until its status is as wished, seldom enough to cost nothing; what made it fail is raised."""
    while not is_reached(status := loop.wait(0.03)):
        if status.is_over:
            raise RuntimeError(f"the run ended early: {status}")
    return status


def run_sb3(seconds: float) -> Measured:
    """Stable-Baselines3 PPO with the same network and numbers, one seat against a random player."""
    limit_threads(1, os.environ)
    from ludus.bench.sb3 import train_sb3

    return train_sb3(seconds)


SIDES: dict[str, Callable[[float], Measured]] = {
    "sb3": run_sb3,
    "fused": lambda seconds: run_loop(seconds, FUSED),
    "fused_sharded": lambda seconds: run_loop(seconds, SHARDED, devices=2),
    "split_sync": lambda seconds: run_loop(seconds, SPLIT),
    "split_async": lambda seconds: run_loop(seconds, ASYNC),
    "explore_only": lambda seconds: run_loop(seconds, ASYNC + "mode: explore\nbuffer: {capacity: 100000000}\n"),
    "train_only": lambda seconds: run_loop(seconds, STOCKED + "mode: explore\n", STOCKED + "mode: train\n"),
}

if __name__ == "__main__":
    run_this_side(SIDES)
