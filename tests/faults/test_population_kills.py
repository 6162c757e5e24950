"""A population that is killed at any moment comes to the same policies, payoffs, meta-strategy and versions."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from killing import Moment, describe, run_through, run_with_kills

from ludus.policies import PolicyStore, TabularShape

CONFIG = """
name: killed
games: [open_spiel:leduc_poker]
population: {stop: {nash_conv: 0.05, generations: 400}}
league: {snapshot_every: 15}
checkpoint: {every: 7}
telemetry: {tensorboard: false}
"""


def versions(run: Path) -> dict[str, str]:
    store = PolicyStore(run / "policies")
    return {str(ref): store.load(ref, TabularShape).weights_hash for ref in store.versions("main")}


def check_same(tmp_path: Path, config: Path) -> None:
    assert run_with_kills(config, tmp_path / "whole", kills=0, longest_s=0.0, seed=0) == 0
    assert describe(tmp_path / "broken") == describe(tmp_path / "whole")
    assert versions(tmp_path / "broken") == versions(tmp_path / "whole")


def write(tmp_path: Path) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text(CONFIG)
    return path


def test_a_killed_population_ends_with_the_same_payoffs_and_meta_strategy(tmp_path: Path) -> None:
    config = write(tmp_path)
    run_through(config, tmp_path / "broken", [Moment(more=4)], seed=3)
    check_same(tmp_path, config)


@pytest.mark.slow
def test_ten_kills_change_nothing(tmp_path: Path) -> None:
    config = write(tmp_path)
    config.write_text(CONFIG.replace("0.05", "0.002"))
    assert run_with_kills(config, tmp_path / "broken", kills=10, longest_s=0.4, seed=5) == 10
    check_same(tmp_path, config)
