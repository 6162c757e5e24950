"""`ludus bench scale`: what a run costs with one to four explorers here, and how well a simulation tells it.

Costs and cores of the simulation (`scale_simulation.py`) are fitted at the first three sizes; the fourth is held out,
and only compared. All sizes are measured in turn. docs/ray_scale.md goes on from these figures, on paper.
"""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean, median

from ludus.bench.loop import SHARED, wait_for
from ludus.bench.measuring import Figure, Measured, descendants, run_rounds, run_this_side
from ludus.bench.scale_simulation import Costs, Outcome, Setup, simulate
from ludus.runtime import limit_threads
from ludus.runtime.fork_launcher import process_cpu_s
from ludus.storage.jsonl import read_jsonl

FITTED, HELD_OUT = (1, 2, 3), 4
BATCH, GAMES, TASKS_PER_SLOT, STALENESS = 128, 128, 3, 8
WARM_UP_UPDATES, LEAST_UPDATES = 3, 6
TEXT = f"""
name: bench_scale
games: [open_spiel:connect_four]
topology: split
schedule: async
explore: {{games_in_flight: {GAMES}, workers: EXPLORERS}}
train: {{steps: 1000000000000, minibatch: 256, epochs: 1, batch_episodes: {BATCH}, max_staleness: {STALENESS}}}
"""
ROOMS = {"explore": "ludus.explore.worker", "train": "ludus.train.worker"}
CORES = [number / 20 for number in range(2, 81)]


def bench_scale(*, rounds: int, seconds: float) -> list[Figure]:
    """Measure all sizes, fit the simulation to the small ones, and compare it with the one that was held out."""
    results: dict[str, list[Measured]] = {side: [] for side in SIDES}
    for side, measured in run_rounds("ludus.bench.scale", list(SIDES), rounds=rounds, seconds=seconds):
        results[side].append(measured)
    found = {
        int(side.removeprefix("explorers_")): {key: median(each[key] for each in runs) for key in runs[0]}
        for side, runs in results.items()
    }
    small = [found[size] for size in FITTED]
    costs = Costs(**{f"{room}_s": median(each[f"{room}_s"] for each in small) for room in ("explore", "loop", "train")})
    rates = {size: found[size]["episodes_per_s"] for size in FITTED}
    cores = min(
        CORES, key=lambda cores: sum((predict(n, costs, cores).episodes_per_s / rates[n] - 1) ** 2 for n in rates)
    )
    there, told = found[HELD_OUT], predict(HELD_OUT, costs, cores)
    unit = "episodes per second"
    return [
        *(Figure.alone(f"{size} explorers", each["episodes_per_s"], unit) for size, each in found.items()),
        *(
            Figure.alone(f"CPU per episode: {room}", 1e6 * getattr(costs, f"{room}_s"), "us")
            for room in ("explore", "loop", "train")
        ),
        Figure.alone("cores, fitted, percent", 100 * cores, "of one"),
        *(
            Figure.against(
                f"simulated, {n} explorers (fitted)",
                predict(n, costs, cores).episodes_per_s,
                unit,
                "measured",
                rates[n],
            )
            for n in FITTED
        ),
        Figure.against(
            f"simulated, {HELD_OUT} explorers (held out)",
            told.episodes_per_s,
            unit,
            "measured",
            there["episodes_per_s"],
        ),
        Figure.against(
            "its staleness, percent", 100 * told.staleness, "of a version", "measured", 100 * there["staleness"] or 1.0
        ),
        Figure.alone("bytes on disk per episode", median(each["bytes"] for each in small), ""),
    ]


def predict(explorers: int, costs: Costs, cores: float) -> Outcome:
    """What the simulation says of a size."""
    setup = Setup(
        explorers=explorers,
        batch=BATCH,
        chunk=BATCH // 8,
        capacity=GAMES * TASKS_PER_SLOT + 2 * BATCH,
        max_staleness=STALENESS,
        cores=cores,
    )
    return simulate(setup, costs)


def measure(explorers: int, seconds: float) -> Measured:
    """Episodes trained on, and the CPU of each room, from the end of one update to that of another."""
    limit_threads(1, os.environ)
    from ludus.config import parse_config
    from ludus.runs import SingleRun

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        run = Path(folder) / "run"
        text = TEXT.replace("EXPLORERS", str(explorers)) + SHARED
        loop = SingleRun(parse_config(text, "bench.yaml"), run)
        loop.start()
        first = wait_for(loop, lambda status: status.stage == "training").update + WARM_UP_UPDATES
        first = wait_for(loop, lambda status: status.update >= first).update
        before, began = _cpu_s(), time.perf_counter()
        wait_for(loop, lambda status: time.perf_counter() - began >= seconds)
        last = wait_for(loop, lambda status: status.update >= first + LEAST_UPDATES)
        after, wall_s = _cpu_s(), time.perf_counter() - began
        loop.stop()
        loop.wait(60)
        lines = [line for line in read_jsonl(run / "metrics.jsonl") if "train/staleness" in line]
        size = sum(
            path.stat().st_size for name in ("episodes", "experiences") for path in (run / name).rglob("*.arrow")
        )
    episodes = (last.update - first) * BATCH
    return {
        "episodes_per_s": episodes / wall_s,
        "staleness": fmean(line["train/staleness"] for line in lines),
        "bytes": size / max(last.episodes, 1),
        **{f"{room}_s": (after[room] - before[room]) / episodes for room in after},
    }


def _cpu_s() -> dict[str, float]:
    """CPU-seconds of this process, which is the loop, and of its workers, by room."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    spent = {"loop": own.ru_utime + own.ru_stime, "explore": 0.0, "train": 0.0}
    for pid in descendants(os.getpid()):
        for room, module in ROOMS.items():
            if module.encode() in _command_line(pid):
                spent[room] += process_cpu_s(pid) or 0.0
    return spent


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


SIDES: dict[str, Callable[[float], Measured]] = {
    f"explorers_{count}": partial(measure, count) for count in (*FITTED, HELD_OUT)
}

if __name__ == "__main__":
    run_this_side(SIDES)
