"""Every parameter of SmolLM2-135M by GRPO on small sums, over vLLM with whole-weight sync: three seeds, two ways.

    make .venv-vllm/.installed                        # vLLM for CPUs in an environment of its own, 2.5 GB
    .venv/bin/python examples/llm/whole_study.py --out runs/whole_study

For each way (drained, in flight) it prints the mean reward of the first and of the last updates, and the KL between
what vLLM sampled with and what the trainer computes (`train/mismatch_kl`). Slow on a CPU: minutes for each update.
Stop it at any moment; the same command goes on.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
VLLM = ROOT / ".venv-vllm" / "bin" / "python"
ON_CPU = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
METRICS = ("train/reward", "train/mismatch_kl", "train/staleness")
LAST = 2
"""Updates at the end whose mean reward is what came out."""


def config(seed: int, update: str, updates: int) -> dict[str, Any]:
    """One run."""
    engine = {
        "kind": "vllm",
        "servers": 1,
        "update": update,
        "command": [str(VLLM), "-m", "vllm.entrypoints.openai.api_server", "--model"],
        "arguments": ["--dtype", "float32", "--enforce-eager", "--max-model-len", "512"],
    }
    return {
        "name": f"whole-{update}-{seed}",
        "seed": seed,
        "schedule": "sync" if update == "drain" else "async",
        "tasks": ["ludus/arithmetic?digits=1&ops=+&count=64"],
        "rewards": [{"kind": "numeric"}],
        "policy": {"model": {"path": "ludus/smollm2", "lora": None, "context": 512}},
        "explore": {"engine": engine, "games_in_flight": 32, "group": 8, "sampling": {"max_tokens": 16}},
        "train": {
            "updates": updates,
            "batch_episodes": 32,
            "minibatch": 32,
            "algorithm": {"preset": "grpo"},
            "optimizer": {"learning_rate": 2e-5},
        },
        "telemetry": {"tensorboard": False, "every_s": 0},
    }


def run(values: Mapping[str, Any], folder: Path) -> dict[str, list[float]]:
    """Run to the end, or on; returns the curves."""
    import yaml

    from ludus.reports.curves import read_curves

    folder.parent.mkdir(parents=True, exist_ok=True)
    file = folder.parent / f"{folder.name}.yaml"
    file.write_text(yaml.safe_dump(dict(values), sort_keys=False))
    command = [sys.executable, "-m", "ludus.cli.app", "run", str(file), "--run-dir", str(folder), "--quiet"]
    subprocess.run(command, check=True, env={**ON_CPU, **os.environ})
    curves = read_curves(folder / "metrics.jsonl", list(METRICS))
    return {name: [value for _, value in curves.get(name, [])] for name in METRICS}


def describe(update: str, found: Sequence[Mapping[str, list[float]]]) -> str:
    """What came out of all seeds."""
    before = [curves["train/reward"][0] for curves in found]
    after = [statistics.mean(curves["train/reward"][-LAST:]) for curves in found]
    kl = [value for curves in found for value in curves["train/mismatch_kl"]]
    spread = max(after) - min(after)
    rise = statistics.mean(after) - statistics.mean(before)
    return (
        f"{update}: reward {statistics.mean(before):.3f} -> {statistics.mean(after):.3f} "
        f"(seeds: {', '.join(f'{value:.3f}' for value in after)}; spread {spread:.3f}, rise {rise:.3f}); "
        f"mismatch KL {statistics.mean(kl):.2e} on average, {max(kl):.2e} at most"
    )


def main() -> None:
    """Run what is not done yet, one run at a time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/whole_study"), help="where the runs go")
    parser.add_argument("--updates", type=int, default=8)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", choices=("drain", "in_flight"))
    arguments = parser.parse_args()
    if not VLLM.is_file():
        parser.error(f"{VLLM} is missing; run: make .venv-vllm/.installed")
    for update in (arguments.only,) if arguments.only else ("drain", "in_flight"):
        found = []
        for seed in arguments.seeds:
            folder = arguments.out / f"{update}-{seed}"
            found.append(run(config(seed, update, arguments.updates), folder))
            print(f"{folder.name}: rewards {found[-1]['train/reward']}", flush=True)
        print(describe(update, found), flush=True)


if __name__ == "__main__":
    main()
