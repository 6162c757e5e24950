from collections.abc import Callable
from pathlib import Path

import pytest

from ludus import SingleRun, parse_config

# The program that this compiles to is that of `test_driving.py` and of tests/faults/test_kill_and_resume.py.
SMALL = """
name: small
games: [pgx:tic_tac_toe]
explore: {games_in_flight: 32, noise: 0.05}
policy: {network: {kind: mlp, hidden: [16]}}
train: {steps: 4096, batch_steps: 512, minibatch: 128, epochs: 1}
league: {opponents: [{kind: mirror, weight: 2}, {kind: pfsp}, {kind: fixed, players: [random]}], snapshot_every: 2048}
evaluate: {against: [random], games: 4, final_games: 6}
telemetry: {every_s: 0}
"""


@pytest.fixture(scope="session")
def finished_run(make_once: Callable[[str, Callable[[Path], None]], Path]) -> Path:
    """A small run that has been done. Read only."""
    return make_once("finished", _play_and_train) / "small"


def _play_and_train(folder: Path) -> None:
    assert SingleRun(parse_config(SMALL, "small.yaml"), folder / "small").run_to_end().stage == "done"
