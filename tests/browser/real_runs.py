"""Small real runs of every kind that the pages know, made by `ludus run`. To add a kind: its arguments here.

They take some minutes on two cores. `LUDUS_BROWSER_RUNS=FOLDER` keeps them there, and the next time they are taken as
they are.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
LUDUS = (sys.executable, "-m", "ludus.cli.app")

RUNS: dict[str, tuple[str, ...]] = {
    "board": (
        "connect_four.yaml",
        "train.steps=300000",
        "policy.network.hidden=[64,64]",
        "league.snapshot_every=60000",
        "evaluate.against=[random]",
        "evaluate.every=60000",
        "evaluate.games=40",
        "evaluate.final_games=40",
        "record.sample_games=8",
    ),
    "words": (
        "llm/tictactoe.yaml",
        "warm_start.games=600",
        "train.steps=5000",
        "train.batch_episodes=32",
        "train.minibatch=32",
        "league.snapshot_every=2000",
        "evaluate.every=2000",
        "evaluate.games=20",
        "evaluate.final_games=20",
        "record.traces=16",
    ),
    "tasks": (
        "rft/arithmetic_stages.yaml",
        "stages.0.train.steps=40000",
        "stages.1.train.steps=6000",
        "stages.2.train.steps=12000",
        "explore.games_in_flight=32",
        "train.batch_episodes=64",
        "evaluate.every=6000",
    ),
    "psro": ("psro/kuhn.yaml", "population.stop.generations=6"),
    "league": (
        "league/connect_four_league.yaml",
        "policy.network.hidden=[32]",
        "explore.games_in_flight=256",
        "population.league.slice_steps=32768",
        "population.league.exploiter_slice_steps=16384",
        "population.payoffs.games=10",
        "population.payoffs.extra=10",
        "population.stop.generations=2",
    ),
}


def ludus(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """What a person would type, and what it printed."""
    return subprocess.run([*LUDUS, *map(str, arguments)], capture_output=True, text=True, check=True, timeout=900)


def make_all(folder: Path) -> Path:
    """A folder with a finished run of each kind."""
    folder = Path(os.environ.get("LUDUS_BROWSER_RUNS") or folder)
    for name, (example, *values) in RUNS.items():
        done = folder / f"{name}.done"
        if not done.exists():
            ludus("run", EXAMPLES / example, "--quiet", "--run-dir", folder / name, *values)
            done.touch()
    return folder
