"""SIGKILL at random moments: a synchronous run ends as if nothing had happened, an asynchronous one loses nothing.

The ordinary run kills once or twice, some updates after a start; `make faults` kills twenty times at any moment
(`-m slow`). A synchronous split run is killed in `test_interrupted_runs.py`, language models in
`test_language_model_kills.py`.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from killing import Moment, check_nothing_is_doubled, describe, run_through, run_with_kills

FUSED = """
name: fused
games: [pgx:tic_tac_toe]
explore: {games_in_flight: 32, noise: 0.05}
policy: {network: {kind: mlp, hidden: [16]}}
train: {steps: 60000, batch_steps: 512, minibatch: 128, epochs: 1}
league: {opponents: [{kind: mirror, weight: 2}, {kind: pfsp}, {kind: fixed, players: [random]}], snapshot_every: 5000}
evaluate: {against: [random], games: 4, every: 5000, final_games: 8}
checkpoint: {every: 5}
telemetry: {tensorboard: false}
"""
SHARDED = FUSED.replace("epochs: 1", "epochs: 1, shards: 2")
SPLIT = """
name: split
games: [open_spiel:tic_tac_toe]
topology: split
explore: {games_in_flight: 32, workers: 2}
policy: {network: {kind: mlp, hidden: [8]}}
experience: {final: [{kind: role_advantage}]}
train: {steps: 5000, batch_episodes: 32, minibatch: 64, epochs: 1}
league: {opponents: [{kind: mirror, weight: 2}, {kind: pfsp}], snapshot_every: 1000}
evaluate: {against: [random], games: 4, every: 1000, final_games: 8}
telemetry: {tensorboard: false}
"""


def write(tmp_path: Path, text: str, steps: int | None = None) -> Path:
    path = tmp_path / "run.yaml"
    before = text.partition("steps: ")[2].partition(",")[0]
    path.write_text(text if steps is None else text.replace(f"steps: {before}", f"steps: {steps}", 1))
    return path


def check_same(tmp_path: Path, config: Path) -> None:
    """The broken run came to what the whole one comes to."""
    assert run_with_kills(config, tmp_path / "whole", kills=0, longest_s=0.0, seed=0) == 0
    whole, broken = describe(tmp_path / "whole"), describe(tmp_path / "broken")
    for part in ("progress", "files", "league", "episodes"):
        assert broken[part] == whole[part], part


@pytest.mark.parametrize(
    "text", [pytest.param(FUSED, id="one shard"), pytest.param(SHARDED, id="two shards", marks=pytest.mark.slow)]
)
def test_a_killed_synchronous_run_ends_with_the_same_weights_and_episodes(tmp_path: Path, text: str) -> None:
    config = write(tmp_path, text)
    run_through(config, tmp_path / "broken", [Moment(more=3)], seed=1)
    check_same(tmp_path, config)


@pytest.mark.slow
@pytest.mark.usefixtures("compile_anew")
@pytest.mark.parametrize(
    ("text", "steps", "seed"),
    [(FUSED, 2_000_000, 11), (SHARDED, 2_000_000, 13), (SPLIT, 60_000, 12)],
    ids=["fused", "sharded", "split"],
)
def test_twenty_kills_change_nothing(tmp_path: Path, text: str, steps: int, seed: int) -> None:
    rarer = text.replace("every: 5000", "every: 50000").replace("checkpoint: {every: 5}", "checkpoint: {every: 20}")
    config = write(tmp_path, rarer, steps)
    happened = run_with_kills(config, tmp_path / "broken", kills=20, longest_s=1.2, seed=seed)
    assert happened == 20, "the run was over before it was killed often enough: make it longer"
    check_same(tmp_path, config)


@pytest.mark.slow
def test_a_killed_asynchronous_run_has_every_episode_once_and_no_version_twice(tmp_path: Path) -> None:
    config = write(tmp_path, SPLIT + "schedule: async\n")
    run_through(config, tmp_path / "run", [Moment(more=2), Moment(more=3)], seed=3)
    check_nothing_is_doubled(tmp_path / "run", unacknowledged=2 * 32)


@pytest.mark.slow
@pytest.mark.usefixtures("compile_anew")
def test_twenty_kills_of_an_asynchronous_run(tmp_path: Path) -> None:
    config = write(tmp_path, SPLIT + "schedule: async\n", 100_000)
    assert run_with_kills(config, tmp_path / "run", kills=20, longest_s=1.5, seed=4) == 20
    check_nothing_is_doubled(tmp_path / "run", unacknowledged=20 * 32)
