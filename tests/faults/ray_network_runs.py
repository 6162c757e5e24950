"""What tests of runs on Ray nodes share: the config, and the same run undisturbed on this machine."""

import subprocess
from pathlib import Path
from typing import Any

from killing import describe, start
from networks import Machine, Network

from ludus import SingleRun, parse_config

TEXT = """
name: split
games: [open_spiel:tic_tac_toe]
topology: split
explore: {games_in_flight: 16, workers: 2}
policy: {network: {kind: mlp, hidden: [8]}}
experience: {final: [{kind: role_advantage}]}
train: {steps: STEPS, batch_episodes: 32, minibatch: 64, epochs: 1}
league: {opponents: [{kind: mirror, weight: 2}, {kind: pfsp}], snapshot_every: 1000}
evaluate: {against: [random], games: 4, every: 1000, final_games: 4}
telemetry: {tensorboard: false, every_s: 0}
"""
QUICK = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1500",
    "RAY_health_check_timeout_ms": "3000",
    "RAY_health_check_failure_threshold": "3",
}
"""For a head that gives a node up after some ten seconds; by default it takes a minute."""
CHECKOUT_RUNS = Path(__file__).parents[2] / "runs"


def config_text(steps: int) -> str:
    return TEXT.replace("STEPS", str(steps))


def undisturbed(folder: Path, text: str) -> dict[str, Any]:
    """What becomes of a config on this machine when nobody interferes."""
    assert SingleRun(parse_config(text, "run.yaml"), folder / "run").run_to_end().stage == "done"
    return describe(folder / "run")


def start_on(network: Network, folder: Path, text: str) -> subprocess.Popen[bytes]:
    """Start a run beside the head of a network, or go on with it."""
    folder.mkdir(exist_ok=True)
    config = folder / "run.yaml"
    config.write_text(f"{text}\nruntime: {{kind: ray, address: '{network.address}', max_restarts: 100}}\n")
    return start(config, folder / "run", within=network.beside_head)


def where(network: Network, module: str) -> list[tuple[Machine, int]]:
    """The nodes and numbers of the processes that run a module."""
    return [(node, pid) for node in network.nodes for pid in node.processes(module)]
