"""The engine is a server, the user's or the run's own: it is killed in mid-run, and comes back or does not.

Here it is the fake vLLM of tests/inference in a process of its own; tests/vllm does the same with the real one.
"""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from killing import (
    check_nothing_is_doubled,
    count_events,
    describe,
    finish,
    is_gone,
    start,
    training_tasks,
    wait_for_event,
)
from mortal_vllm import MortalVllm

from ludus.storage.jsonl import read_jsonl

STAND_IN = Path(__file__).parents[1] / "inference" / "stand_in_server.py"
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


@pytest.mark.slow
def test_a_run_starts_servers_replaces_those_that_are_killed_and_leaves_none(tmp_path: Path) -> None:
    path, run = tmp_path / "run.yaml", tmp_path / "run"
    path.write_text(own_servers(tmp_path, "servers: 2"))
    (tmp_path / "notes").mkdir()
    process = start(path, run)
    assert wait_for_event(process, run, "published", 3)
    first = {int(notes.stem) for notes in (tmp_path / "notes").iterdir()}
    assert len(first) == 2
    assert all("load main@" in (tmp_path / "notes" / f"{pid}.txt").read_text() for pid in first)
    os.kill(min(first), signal.SIGKILL)
    code, said = finish(process)
    assert code == 0, said
    (lost,) = [event for event in events(run, "worker_lost") if event["worker"].startswith("engine-")]
    assert lost["reason"] == "the inference server was killed by signal 9"
    assert "the stand-in listens at port" in lost["log_tail"]
    assert len(events(run, "server_ready")) == 3
    check_nothing_is_doubled(run)
    assert not events(run, "episode_failed")
    assert training_tasks(run) == list(range(80))
    servers = {int(notes.stem) for notes in (tmp_path / "notes").iterdir()}
    assert len(servers) == 3
    assert all(is_gone(pid) for pid in servers)


@pytest.mark.slow
@pytest.mark.parametrize("update", ["drain", "in_flight"])
def test_whole_models_at_two_servers_one_of_them_killed(tmp_path: Path, update: str) -> None:
    path, run, notes = tmp_path / "run.yaml", tmp_path / "run", tmp_path / "notes"
    path.write_text(own_servers(tmp_path, f"servers: 2, update: {update}").replace("lora: {rank: 2}", "lora: null"))
    notes.mkdir()
    process = start(path, run, "schedule=async", "train.algorithm.preset=a2c")
    assert wait_for_event(process, run, "published", 5)
    os.kill(min(int(each.stem) for each in notes.iterdir()), signal.SIGKILL)
    code, said = finish(process)
    assert code == 0, said
    check_nothing_is_doubled(run)
    assert not events(run, "episode_failed")
    assert training_tasks(run) == list(range(len(training_tasks(run))))
    told = [each.read_text() for each in notes.iterdir()]
    assert len(told) == 3
    assert all("label main@" in each for each in told)
    assert all(is_gone(int(each.stem)) for each in notes.iterdir())


@pytest.mark.slow
def test_a_server_with_other_weights_ends_the_run_with_one_sentence(tmp_path: Path) -> None:
    path, run = tmp_path / "run.yaml", tmp_path / "run"
    path.write_text(own_servers(tmp_path, "servers: 1").replace("lora: {rank: 2}", "lora: null"))
    path.write_text(path.read_text().replace("arguments: [", 'arguments: [--lies, "0.5", '))
    (tmp_path / "notes").mkdir()
    code, said = finish(start(path, run))
    assert code == 1
    assert said.count("\n") <= 2, said
    assert "does not have the weights of main@0 that it was given: on the probe it is 0.5 nats a token" in said


@pytest.mark.slow
def test_a_server_that_cannot_be_had_ends_the_run_with_its_last_lines(tmp_path: Path) -> None:
    path, run = tmp_path / "run.yaml", tmp_path / "run"
    path.write_text(own_servers(tmp_path, "servers: 1"))  # the folder for its notes is not there
    code, said = finish(start(path, run, "runtime.max_restarts=1"))
    assert code == 1
    assert "engine-0 exited with code 1; it was lost 2 times" in said
    assert "FileNotFoundError" in said
    code, said = finish(start(path, run, "explore.engine.command=[no-such-program]"))
    assert code == 1
    assert "engine-0: no-such-program is not installed here" in said
    assert said.count("\n") <= 2, said


def own_servers(folder: Path, settings: str) -> str:
    """The run of this file with servers of its own, which leave notes in `folder/notes`."""
    from ludus.lm.tiny_model import make_tiny_model

    program = [sys.executable, str(STAND_IN)]
    model = make_tiny_model(folder / "tiny", layers=1, width=16, heads=2, kv_heads=1)
    engine = f"{settings}, command: {program}, arguments: [--notes, {folder / 'notes'}]"
    return TEXT.replace("MODEL", str(model)).replace('url: "URL", model: base', engine)


def events(run: Path, kind: str) -> list[dict[str, Any]]:
    return [event for event in read_jsonl(run / "events.jsonl") if event["event"] == kind]
