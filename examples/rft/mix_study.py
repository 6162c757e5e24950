"""SFT, GRPO and MIX from the same warm start, over the same number of trained tokens, three seeds each.

    make mix-study                                   (or: python examples/rft/mix_study.py --out runs/mix_study)

The warm start has seen answers worked out step by step and answers at once, so it knows how to add and subtract but is
not sure of it. Then SFT imitates 300 worked examples, GRPO learns from its own attempts at 8,000 problems, and MIX does
both at once. What is measured are problems that nobody has trained on. Stop it at any moment; the same command goes on.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

SEEDS = (0, 1, 2)
ARMS = ("sft", "grpo", "mix")
METRIC = "evaluate/held_out/success"
SUMS = "ludus/arithmetic?digits=2&ops=+-"
WORKED = {"path": f"{SUMS}&count=300&worked=1", "fields": {"prompt": "prompt", "response": "solution"}}


def shared(name: str, seed: int) -> dict[str, Any]:
    """What all runs of the study have in common."""
    return {
        "name": name,
        "seed": seed,
        "tasks": [f"{SUMS}&count=8000"],
        "rewards": [{"kind": "numeric"}],
        "policy": {"model": {"path": "ludus/mini", "lora": None}},
        "explore": {"games_in_flight": 256, "group": 8, "sampling": {"max_tokens": 24}},
        "evaluate": {"every": 60000, "tasks": [{"path": f"{SUMS}&count=400", "split": "test", "name": "held_out"}]},
        "telemetry": {"tensorboard": False},
    }


def warm_start() -> dict[str, Any]:
    """Supervised learning from 2,000 worked answers and 4,000 others."""
    worked = {"path": f"{SUMS}&count=2000&worked=1", "fields": {"prompt": "prompt", "response": "solution"}}
    at_once = {"path": f"{SUMS}&count=4000&seed=3", "fields": {"prompt": "prompt", "response": "answer"}}
    return {
        **shared("warm_start", 0),
        "buffer": {"expert": {"sources": [worked, at_once], "rows": 128}},
        "train": {
            "steps": 800000,
            "minibatch": 64,
            "algorithm": {"preset": "sft"},
            "optimizer": {"learning_rate": 0.003, "warmup_fraction": 0.05},
        },
    }


def arm(preset: str, seed: int, start: Path) -> dict[str, Any]:
    """One of the three objectives."""
    values = shared(f"{preset}-{seed}", seed)
    algorithm: dict[str, Any] = {"preset": preset}
    episodes, rows = {"sft": (0, 256), "grpo": (256, 0), "mix": (256, 64)}[preset]
    if preset == "mix":
        algorithm["mu"] = {"peak": 0.5}
    if rows:
        values["buffer"] = {"expert": {"sources": [WORKED], "rows": rows}}
    values["policy"]["start"] = str(start)
    values["train"] = {
        "steps": 600000,
        **({"batch_episodes": episodes} if episodes else {}),
        "minibatch": episodes + rows,
        "algorithm": algorithm,
        "optimizer": {"learning_rate": 0.0005},
    }
    return values


def run(values: Mapping[str, Any], folder: Path) -> float:
    """Run to the end, or on; returns the last held-out success rate."""
    import yaml

    from ludus.reports.curves import read_curves

    folder.parent.mkdir(parents=True, exist_ok=True)
    config = folder.parent / f"{folder.name}.yaml"
    config.write_text(yaml.safe_dump(dict(values), sort_keys=False))
    command = [sys.executable, "-m", "ludus.cli.app", "run", str(config), "--run-dir", str(folder), "--quiet"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    score = read_curves(folder / "metrics.jsonl", [METRIC])[METRIC][-1][1]
    print(f"{folder.name}: {score:.1%} of the held-out problems", flush=True)
    return score


def conclude(start: float, scores: Mapping[str, list[float]]) -> Iterable[str]:
    """What came out, and whether MIX is where it is expected."""
    yield f"warm start  {start:.1%}"
    for name in ARMS:
        found = ", ".join(f"{score:.1%}" for score in scores[name])
        yield f"{name:<11} {statistics.mean(scores[name]):.1%} (seeds: {found})"
    mix, others = statistics.mean(scores["mix"]), {name: statistics.mean(scores[name]) for name in ("sft", "grpo")}
    better = max(others, key=lambda name: others[name])
    spread = max(max(scores[name]) - min(scores[name]) for name in ("mix", better))
    yield f"MIX is {100 * (mix - start):+.1f} points from the warm start,"
    yield f"and {100 * (mix - others[better]):+.1f} from {better},"
    yield f"where seeds differ by up to {100 * spread:.1f} points."


def main() -> None:
    """Run what is not done yet, two runs at a time, and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/mix_study"), help="where the runs and the picture go")
    out: Path = parser.parse_args().out
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    first = run(warm_start(), out / "warm_start")
    with ThreadPoolExecutor(2) as pool:
        jobs = {
            (name, seed): (arm(name, seed, out / "warm_start"), out / f"{name}-{seed}")
            for seed in SEEDS
            for name in ARMS
        }
        found = dict(zip(jobs, pool.map(lambda job: run(*job), jobs.values()), strict=True))
    print("\n".join(conclude(first, {name: [found[name, seed] for seed in SEEDS] for name in ARMS})))
    plot = [sys.executable, "-m", "ludus.cli.app", "plot", *(f"{name}={out}/{name}-?" for name in ARMS)]
    title = "held-out sums after the same number of trained tokens"
    subprocess.run([*plot, "--metric", METRIC, "--out", str(out / "study.png"), "--title", title], check=True)


if __name__ == "__main__":
    main()
