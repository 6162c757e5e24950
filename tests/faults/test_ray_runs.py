"""Runs on a Ray cluster end as local ones do, bit for bit, whatever is killed: a worker, the loop or the cluster's head."""

import json
import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "golden"))

from cut_examples import cut, laid_over, weights_of
from killing import (
    EXPLORER,
    RANK,
    RUN,
    TRAINER,
    Moment,
    check_nothing_is_doubled,
    command_line,
    count_events,
    descendants,
    describe,
    episodes,
    finish,
    is_gone,
    kill,
    run_through,
    start,
    wait_for_event,
    wait_until,
)

from ludus import SingleRun, make_run, parse_config

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]

TEXT = """
name: split
games: [open_spiel:tic_tac_toe]
topology: split
explore: {games_in_flight: 16, workers: 2}
policy: {network: {kind: mlp, hidden: [8]}}
experience: {final: [{kind: role_advantage}]}
train: {steps: 8000, batch_episodes: 32, minibatch: 64, epochs: 1}
league: {opponents: [{kind: mirror, weight: 2}, {kind: pfsp}], snapshot_every: 1000}
evaluate: {against: [random], games: 4, every: 1000, final_games: 4}
telemetry: {tensorboard: false, every_s: 0}
"""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What becomes of the config on this machine when nobody interferes."""
    run = tmp_path_factory.mktemp("whole") / "run"
    assert SingleRun(parse_config(TEXT, "run.yaml"), run).run_to_end().stage == "done"
    return describe(run)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text(f"{TEXT}runtime: ray\n")
    return path


SHORTER: dict[str, dict[str, Any]] = {
    "llm/tictactoe.yaml": {"warm_start": {"games": 40}, "train": {"steps": 400}},
    "rft/arithmetic_mix.yaml": {},
}
"""Language models: what is laid over their cuts."""


@pytest.mark.parametrize("example", ["tic_tac_toe_split.yaml", "kuhn_poker.yaml", "marl/simple_tag.yaml", *SHORTER])
def test_an_example_has_the_same_weights_on_both_runtimes(tmp_path: Path, example: str) -> None:
    text = yaml.safe_dump(laid_over(yaml.safe_load(cut(example)), SHORTER.get(example, {})))
    found = {}
    for runtime in ("local", "ray"):
        run = make_run(parse_config(f"{text}\nruntime: {runtime}\n", "run.yaml"), tmp_path / runtime)
        assert run.run_to_end().stage == "done"
        found[runtime] = weights_of(tmp_path / runtime)
    assert found["ray"] == found["local"]
    assert list((tmp_path / "ray").rglob("logs/latest/explorer-0.log"))


def test_killed_workers_and_loops_lose_and_double_nothing(
    config: Path, tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    run = tmp_path / "run"
    moments = [Moment(who=who, more=2) for who in (EXPLORER, TRAINER, RUN, EXPLORER, TRAINER, EXPLORER, RUN, TRAINER)]

    run_through(config, run, moments, seed=3)

    assert count_events(run, "worker_lost") >= 3
    check_nothing_is_doubled(run)
    assert describe(run) == undisturbed


SEVERAL = {
    "network": """
name: boards
games: [open_spiel:tic_tac_toe]
topology: split
policy: {network: {kind: mlp, hidden: [16]}}
explore: {games_in_flight: 8}
train: {trainers: 2, steps: 1200, batch_episodes: 8, minibatch: 32}
telemetry: {tensorboard: false, every_s: 0}
""",
    "language model": """
name: words
games: [open_spiel:tic_tac_toe]
policy: {model: {path: ludus/mini, lora: {rank: 4}}}
explore: {games_in_flight: 8, prompt: {template: bare, invalid_moves: 1}, sampling: {max_tokens: 4}}
experience: {final: [{kind: role_advantage}]}
train: {trainers: 2, steps: 200, batch_episodes: 8, minibatch: 8, algorithm: {preset: ppo}}
telemetry: {tensorboard: false, every_s: 0}
""",
}


@pytest.mark.parametrize("policy", SEVERAL)
def test_two_trainers_on_nodes_end_with_the_bits_of_two_processes_whoever_is_killed(
    tmp_path: Path, policy: str
) -> None:
    (tmp_path / "local.yaml").write_text(SEVERAL[policy])
    code, error = finish(start(tmp_path / "local.yaml", tmp_path / "local"))
    assert code == 0, error
    (tmp_path / "ray.yaml").write_text(f"{SEVERAL[policy]}runtime: ray\n")

    run_through(tmp_path / "ray.yaml", tmp_path / "ray", [Moment(who=RANK), Moment(who=TRAINER)], seed=1)

    assert count_events(tmp_path / "ray", "worker_lost") == 2
    assert describe(tmp_path / "ray") == describe(tmp_path / "local")
    assert not list((tmp_path / "ray").rglob(".tmp-*"))


def test_nothing_of_a_killed_loop_is_left_after_30_s(config: Path, tmp_path: Path) -> None:
    process = start(config, tmp_path / "run")
    assert wait_for_event(process, tmp_path / "run", "published", 3)
    family = descendants(process.pid)
    assert any(b"raylet" in command_line(pid) for pid in family)
    assert any(EXPLORER.encode() in command_line(pid) for pid in family)

    kill(process)

    assert wait_until(lambda: all(map(is_gone, family)), 30.0), [
        command_line(pid) for pid in family if not is_gone(pid)
    ]


def test_a_lost_head_ends_the_run_in_one_sentence_and_the_next_start_resumes(
    config: Path, tmp_path: Path, undisturbed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "2")
    config.write_text(config.read_text().replace("steps: 8000", "steps: 8000000"))
    run = tmp_path / "run"
    process = start(config, run)
    assert wait_for_event(process, run, "published", 3)

    os.kill(_head(process), signal.SIGKILL)
    code, said = finish(process, 120.0)

    assert code == 1
    (sentence,) = [line for line in said.splitlines() if "Ray cluster" in line and "was lost" in line]
    assert "the next start resumes the run" in sentence
    before = count_events(run, "published")
    process = start(config, run)
    assert wait_for_event(process, run, "published", before + 2)
    kill(process)
    check_nothing_is_doubled(run, unacknowledged=1000)


LONGER = TEXT.replace("steps: 8000", "steps: 24000")


@pytest.fixture(scope="module")
def longer(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What becomes of the longer config on this machine when nobody interferes."""
    run = tmp_path_factory.mktemp("longer") / "run"
    assert SingleRun(parse_config(LONGER, "run.yaml"), run).run_to_end().stage == "done"
    return describe(run)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_loops_that_are_killed_at_five_moments_are_resumed_exactly(
    config: Path, tmp_path: Path, longer: dict[str, Any]
) -> None:
    config.write_text(f"{LONGER}runtime: ray\n")
    moments = [Moment(event="started", within_s=20.0), *(Moment(more=3) for _ in range(4))]

    run_through(config, tmp_path / "run", moments, seed=9)

    assert count_events(tmp_path / "run", "started") == 6
    check_nothing_is_doubled(tmp_path / "run")
    assert describe(tmp_path / "run") == longer


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_heads_that_are_killed_at_five_moments_cost_nothing(
    config: Path, tmp_path: Path, longer: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "2")
    config.write_text(f"{LONGER}runtime: ray\n")
    run, dice, acknowledged = tmp_path / "run", random.Random(10), {}
    for number in range(5):
        process = start(config, run)
        published = count_events(run, "published") if number else 0
        assert wait_for_event(process, run, "published", published + 1)
        with suppress(subprocess.TimeoutExpired):
            process.wait(dice.uniform(0.0, 0.5))
        os.kill(_head(process), signal.SIGKILL)
        code, said = finish(process, 120.0)
        assert code == 1, "the run ended before its head was lost; make it longer"
        assert "the next start resumes the run" in said
        acknowledged |= episodes(run)

    code, said = finish(start(config, run))

    assert code == 0, said
    assert acknowledged.items() <= episodes(run).items()
    check_nothing_is_doubled(run)
    assert describe(run) == longer


def _head(process: subprocess.Popen[bytes]) -> int:
    """The process that keeps the tables of a run's cluster."""
    return next(pid for pid in descendants(process.pid) if b"gcs_server" in command_line(pid))


@pytest.mark.slow
def test_a_run_whose_requests_and_replies_are_lost_ends_as_a_local_one(
    config: Path, tmp_path: Path, undisturbed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = {"num_failures": 60, "req_failure_prob": 10, "resp_failure_prob": 20}
    monkeypatch.setenv("RAY_testing_rpc_failure", json.dumps({"CoreWorkerService.grpc_client.PushTask": failures}))
    process = start(config, tmp_path / "run")

    code, said = finish(process)

    assert code == 0, said
    repeated = sum(log.read_text().count("it is repeated") for log in (tmp_path / "run").glob("logs/*/ray.log"))
    assert repeated >= 3
    check_nothing_is_doubled(tmp_path / "run")
    assert describe(tmp_path / "run") == undisturbed


STAGED = """
name: staged
games: [open_spiel:tic_tac_toe]
topology: split
explore: {games_in_flight: 16}
policy: {network: {kind: mlp, hidden: [8]}}
telemetry: {tensorboard: false, every_s: 0}
stages:
  - {name: first, train: {steps: 600, batch_episodes: 16, minibatch: 64}}
  - {name: second, train: {steps: 600, batch_episodes: 16, minibatch: 64}}
"""


def test_a_staged_run_has_the_same_weights_on_both_runtimes(tmp_path: Path) -> None:
    found = {}
    for runtime in ("local", "ray"):
        run = make_run(parse_config(f"{STAGED}runtime: {runtime}\n", "run.yaml"), tmp_path / runtime)
        assert run.run_to_end().stage == "done"
        found[runtime] = weights_of(tmp_path / runtime)
    assert found["ray"] == found["local"]
    assert len(found["ray"]) >= 2
    assert len(list((tmp_path / "ray").rglob("logs/latest/explorer-0.log"))) == 2
