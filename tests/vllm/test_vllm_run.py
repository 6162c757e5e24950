"""A whole run over a real vLLM server, which is killed in the middle of it: tests/faults does the same with a fake one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))

from killing import check_nothing_is_doubled, count_events, finish, start, training_tasks, wait_for_event

from ludus.storage.jsonl import read_jsonl

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]

TEXT = """
name: words
games: [open_spiel:tic_tac_toe]
policy: {model: {path: MODEL, lora: {rank: 4}}}
explore:
  games_in_flight: 8
  engine: {kind: vllm, url: "URL", model: base}
  prompt: {template: bare, invalid_moves: 1}
  sampling: {max_tokens: 4}
train: {steps: 1200, batch_episodes: 8, minibatch: 8, algorithm: {preset: reinforce}}
league: {snapshot_every: 1000000}
evaluate: {against: [random], games: 2, final_games: 2}
telemetry: {tensorboard: false, every_s: 0}
"""


@pytest.fixture
def mortal_server(server: Any) -> Iterator[Any]:
    """The server, running again afterwards."""
    if not server.is_running:
        server.start()
    yield server
    if not server.is_running:
        server.start()


def test_a_run_outlives_a_killed_server_and_stops_with_its_address_when_that_stays_away(
    mortal_server: Any, published: Any, tmp_path: Path
) -> None:
    config, run = tmp_path / "run.yaml", tmp_path / "run"
    config.write_text(TEXT.replace("MODEL", str(published.model.folder)).replace("URL", mortal_server.url))

    process = start(config, run, "explore.engine.patience_s=0")
    assert wait_for_event(process, run, "published", 3), finish(process)
    mortal_server.kill()
    code, said = finish(process)
    assert code == 1
    assert f"EngineLost: {mortal_server.url} cannot be reached" in said

    mortal_server.start()
    process = start(config, run)
    assert wait_for_event(process, run, "published", count_events(run, "published") + 2), finish(process)
    mortal_server.kill()
    assert wait_for_event(process, run, "engine_lost", 1)
    mortal_server.start()
    code, said = finish(process)
    assert code == 0, said

    assert count_events(run, "engine_back") == 1
    assert not [event for event in read_jsonl(run / "events.jsonl") if event["event"] == "episode_failed"]
    check_nothing_is_doubled(run)
    assert training_tasks(run) == list(range(len(training_tasks(run))))
