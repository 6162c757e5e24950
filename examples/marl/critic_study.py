"""IPPO and MAPPO on simple_spread, three seeds each: the same but for what the critic sees.

    make critic-study                                (or: python examples/marl/critic_study.py --out runs/critic_study)

Both play examples/marl/simple_spread.yaml; what is measured is the mean return of an agent over greedy games, the same
ones for both. Stop it at any moment; the same command goes on.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CONFIG = Path(__file__).with_name("simple_spread.yaml")
SEEDS = (0, 1, 2)
ARMS = ("ippo", "mappo")
METRIC = "evaluate/return"


def run(preset: str, seed: int, out: Path) -> float:
    """Run to the end, or on; returns the mean return of the last version."""
    from ludus.reports.curves import read_curves

    folder = out / f"{preset}-{seed}"
    overrides = [f"name={folder.name}", f"seed={seed}", f"train.algorithm.preset={preset}"]
    where = ["--run-dir", str(folder), "--quiet"]
    command = [sys.executable, "-m", "ludus.cli.app", "run", str(CONFIG), *overrides, *where]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    score = read_curves(folder / "metrics.jsonl", [METRIC])[METRIC][-1][1]
    print(f"{folder.name}: {score:.2f}", flush=True)
    return score


def conclude(scores: Mapping[str, list[float]]) -> Iterable[str]:
    """What came out."""
    for name in ARMS:
        found = ", ".join(f"{score:.2f}" for score in scores[name])
        yield f"{name:<6} {statistics.mean(scores[name]):.2f} (seeds: {found})"
    difference = statistics.mean(scores["mappo"]) - statistics.mean(scores["ippo"])
    spread = max(max(scores[name]) - min(scores[name]) for name in ARMS)
    yield f"MAPPO is {difference:+.2f} from IPPO, where seeds differ by up to {spread:.2f}."
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    yield f"{(used.ru_utime + used.ru_stime) / 60:.1f} CPU-minutes"


def main() -> None:
    """Run what is not done yet, two runs at a time, and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/critic_study"), help="where the runs and the picture go")
    out: Path = parser.parse_args().out
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    jobs = [(name, seed) for seed in SEEDS for name in ARMS]
    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(jobs, pool.map(lambda job: run(*job, out), jobs), strict=True))
    print("\n".join(conclude({name: [found[name, seed] for seed in SEEDS] for name in ARMS})))
    plot = [sys.executable, "-m", "ludus.cli.app", "plot", *(f"{name}={out}/{name}-?" for name in ARMS)]
    title = "simple_spread: mean return of an agent, three seeds"
    subprocess.run([*plot, "--metric", METRIC, "--out", str(out / "study.png"), "--title", title], check=True)


if __name__ == "__main__":
    main()
