"""SIGKILL at random moments: a synchronous run ends as if nothing had happened, an asynchronous one loses nothing.

The ordinary run kills a few times; `make faults` kills twenty times (`-m slow`).
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from killing import describe, episodes, run_with_kills

from ludus.storage.jsonl import read_jsonl
from ludus.storage.segment_reader import SegmentReader

FUSED = """
name: fused
games: [pgx:tic_tac_toe]
explore: {games_in_flight: 64, noise: 0.05}
policy: {network: {kind: mlp, hidden: [32]}}
train: {steps: 400000, batch_steps: 512, minibatch: 128, epochs: 1}
league: {opponents: [{kind: mirror, weight: 2}, {kind: pfsp}, {kind: fixed, players: [random]}], snapshot_every: 50000}
evaluate: {against: [random], games: 4, every: 50000, final_games: 8}
checkpoint: {every: 20}
telemetry: {tensorboard: false}
"""
SPLIT = """
name: split
games: [open_spiel:tic_tac_toe]
topology: split
explore: {games_in_flight: 32, workers: 2}
policy: {network: {kind: mlp, hidden: [32]}}
experience: {final: [{kind: role_advantage}]}
train: {steps: 12000, batch_episodes: 32, minibatch: 64, epochs: 1}
league: {opponents: [{kind: mirror, weight: 2}, {kind: pfsp}], snapshot_every: 2000}
evaluate: {against: [random], games: 4, every: 2000, final_games: 8}
telemetry: {tensorboard: false}
"""
LANGUAGE = """
name: language
games: [open_spiel:tic_tac_toe]
policy: {model: {path: MODEL, lora: {rank: 4}}}
warm_start: {games: 20, minibatch: 8}
explore: {games_in_flight: 8, workers: 2, speech: {prompt: bare, max_tokens: 4, invalid_moves: 1}}
experience: {final: [{kind: role_advantage}]}
train: {steps: 600, batch_episodes: 4, minibatch: 4, algorithm: {preset: ppo}}
league: {opponents: [{kind: mirror, weight: 2}, {kind: lagged}], snapshot_every: 200}
evaluate: {against: [random], games: 2, every: 200, final_games: 4}
telemetry: {tensorboard: false}
"""


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> str:
    from ludus.policies.tiny_model import make_tiny_model

    folder = make_tiny_model(tmp_path_factory.mktemp("model") / "tiny", layers=1, width=16, heads=2, kv_heads=1)
    return LANGUAGE.replace("MODEL", str(folder))


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    return path


def check_synchronous(tmp_path: Path, text: str, *, kills: int, longest_s: float, seed: int) -> None:
    config = write(tmp_path, text)
    assert run_with_kills(config, tmp_path / "whole", kills=0, longest_s=0.0, seed=0) == 0
    happened = run_with_kills(config, tmp_path / "broken", kills=kills, longest_s=longest_s, seed=seed)
    assert happened == kills, "the run was over before it was killed often enough: make it longer"
    whole, broken = describe(tmp_path / "whole"), describe(tmp_path / "broken")
    for part in ("progress", "files", "league", "episodes"):
        assert broken[part] == whole[part], part


@pytest.mark.parametrize("text", [FUSED, SPLIT], ids=["fused", "split"])
def test_a_killed_synchronous_run_ends_with_the_same_weights_and_episodes(tmp_path: Path, text: str) -> None:
    check_synchronous(tmp_path, text, kills=2, longest_s=1.5, seed=1)


def test_a_killed_run_of_a_language_model_ends_with_the_same_weights_and_episodes(
    tmp_path: Path, language: str
) -> None:
    check_synchronous(tmp_path, language, kills=1, longest_s=3.0, seed=5)


@pytest.mark.slow
def test_twenty_kills_change_nothing_for_a_language_model(tmp_path: Path, language: str) -> None:
    longer = language.replace("steps: 600", "steps: 6000")
    check_synchronous(tmp_path, longer, kills=20, longest_s=4.0, seed=15)


@pytest.mark.slow
@pytest.mark.parametrize(("text", "seed"), [(FUSED, 11), (SPLIT, 12)], ids=["fused", "split"])
def test_twenty_kills_change_nothing(tmp_path: Path, text: str, seed: int) -> None:
    longer = text.replace("steps: 400000", "steps: 2000000").replace("steps: 12000", "steps: 60000")
    check_synchronous(tmp_path, longer, kills=20, longest_s=1.2, seed=seed)


def check_asynchronous(tmp_path: Path, *, steps: int, kills: int, seed: int) -> None:
    config = write(tmp_path, SPLIT.replace("steps: 12000", f"steps: {steps}") + "schedule: async\n")
    run = tmp_path / "run"
    assert run_with_kills(config, run, kills=kills, longest_s=1.5, seed=seed) == kills
    played = episodes(run)
    training = sorted(row[0] for row in played.values() if row[0] < 2**40)
    assert len(set(training)) == len(training), "a task was recorded twice"
    rows = [
        (row["episode"], row["seat"])
        for _, table in SegmentReader(run / "experiences").scan()
        for row in table.select(["episode", "seat"]).to_pylist()
    ]
    assert len(set(rows)) == len(rows), "a sequence is in the log twice"
    # Between the commit of the rows and that of their episodes a kill can leave rows whose episode was never
    # acknowledged: at most one hand-over for each kill.
    assert len({episode for episode, _ in rows} - set(played)) <= kills * 32
    versions = [event["policy"] for event in read_jsonl(run / "events.jsonl") if event["event"] == "published"]
    assert len(set(versions)) == len(versions), "a version was trained twice"


def test_a_killed_asynchronous_run_has_every_episode_once_and_no_version_twice(tmp_path: Path) -> None:
    check_asynchronous(tmp_path, steps=20_000, kills=2, seed=3)


@pytest.mark.slow
def test_twenty_kills_of_an_asynchronous_run(tmp_path: Path) -> None:
    check_asynchronous(tmp_path, steps=100_000, kills=20, seed=4)
