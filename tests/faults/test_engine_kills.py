"""The engine is somebody else's server: it is killed in the middle of a run, and comes back or does not.

Here it is the fake vLLM of tests/inference in a process of its own; tests/vllm does the same with the real one.
"""

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from killing import check_nothing_is_doubled, count_events, describe, finish, start, training_tasks, wait_for_event
from mortal_vllm import MortalVllm

from ludus.storage.jsonl import read_jsonl

TEXT = """
name: words
games: [open_spiel:tic_tac_toe]
policy: {model: {path: MODEL, lora: {rank: 2}}}
explore:
  games_in_flight: 4
  engine: {kind: vllm, url: "URL", model: base}
  prompt: {template: bare, invalid_moves: 1}
  sampling: {max_tokens: 4}
train: {steps: 640, batch_episodes: 4, minibatch: 4, algorithm: {preset: reinforce, advantage: {normalise: false}}}
league: {snapshot_every: 1000000}
evaluate: {against: [random], games: 2, final_games: 2}
telemetry: {tensorboard: false, every_s: 0}
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MortalVllm]:
    server = MortalVllm(tmp_path)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def config(tmp_path: Path, server: MortalVllm) -> Path:
    from ludus.lm.tiny_model import make_tiny_model

    model = make_tiny_model(tmp_path / "tiny", layers=1, width=16, heads=2, kv_heads=1)
    path = tmp_path / "run.yaml"
    path.write_text(TEXT.replace("MODEL", str(model)).replace("URL", server.url))
    return path


def kill_after(
    process: subprocess.Popen[bytes], server: MortalVllm, run: Path, *, published: int, later_s: float = 0.0
) -> None:
    assert wait_for_event(process, run, "published", count_events(run, "published") + published)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(later_s)
    server.kill()


@pytest.mark.slow
def test_a_run_outlives_its_engine_and_stops_with_its_address_when_that_stays_away(
    tmp_path: Path, server: MortalVllm, config: Path
) -> None:
    run = tmp_path / "run"

    process = start(config, run, "explore.engine.patience_s=0")
    kill_after(process, server, run, published=3)
    code, said = finish(process)
    assert code == 1
    assert said.count("\n") <= 2, said
    assert f"{server.url} cannot be reached" in said
    assert "the same command resumes the run" in said
    assert not any("error" in event for event in events(run, "episode_failed"))

    server.start()
    process = start(config, run)
    kill_after(process, server, run, published=2)
    assert wait_for_event(process, run, "engine_lost", 1)
    server.start()
    code, said = finish(process)
    assert code == 0, said
    assert count_events(run, "engine_back") == 1
    assert count_events(run, "worker_lost") == 0

    check_nothing_is_doubled(run)
    assert not events(run, "episode_failed")
    _, second, third = server.loaded()
    assert second
    assert third, "the fresh server is given what the games need"
    assert training_tasks(run) == list(range(80))


@pytest.mark.slow
def test_games_that_the_engine_interrupts_come_to_what_they_would_have_come_to(
    tmp_path: Path, server: MortalVllm, config: Path
) -> None:
    """The fake answers the same request with the same reply, so an interrupted run can be compared with a whole one."""
    dice = random.Random(8)
    process = start(config, tmp_path / "run")
    for _ in range(6):
        kill_after(process, server, tmp_path / "run", published=1 + dice.randrange(2), later_s=dice.uniform(0.0, 0.2))
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(dice.uniform(0.0, 8.0))
        server.start()
    code, said = finish(process)
    assert code == 0, said
    assert finish(start(config, tmp_path / "whole")) == (0, "")
    assert describe(tmp_path / "run") == describe(tmp_path / "whole")


def events(run: Path, kind: str) -> list[dict[str, Any]]:
    return [event for event in read_jsonl(run / "events.jsonl") if event["event"] == kind]
