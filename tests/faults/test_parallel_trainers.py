"""Two trainer processes through a whole run: the updates of one, and nobody is left behind when one is killed."""

import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from killing import (
    HELPER,
    TRAINER,
    Moment,
    count_events,
    descendants,
    describe,
    finish,
    is_gone,
    kill,
    kill_worker,
    run_through,
    start,
    training_tasks,
    wait_for_event,
    wait_until,
    workers,
)

from ludus.lm.language_shape import LanguageModelShape
from ludus.policies import PolicyStore
from ludus.records import PolicyName, PolicyRef, PolicyVersion
from ludus.storage.jsonl import read_jsonl

TRAINERS = "train.trainers=2"
WHOLE, SHARDED = (TRAINERS,), (TRAINERS, "train.sharding=fsdp")
BOARDS = """
name: boards
games: [open_spiel:tic_tac_toe]
topology: split
policy: {network: {kind: mlp, hidden: [16]}}
explore: {games_in_flight: 8}
train: {trainers: 2, steps: 1200, batch_episodes: 8, minibatch: 32}
league: {snapshot_every: 600}
evaluate: {against: [random], games: 2, every: 600, final_games: 2}
telemetry: {tensorboard: false, every_s: 0}
"""


def weights(run: Path, version: int) -> dict[str, Any]:
    ref = PolicyRef(name=PolicyName("main"), version=PolicyVersion(version))
    return dict(PolicyStore(run / "policies").load(ref, LanguageModelShape).weights)


def first_metrics(run: Path) -> dict[str, float]:
    return next(line for line in read_jsonl(run / "metrics.jsonl") if "train/loss" in line)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [WHOLE, SHARDED], ids=["whole", "sharded"])
def test_two_trainers_learn_what_one_learns_and_outlive_their_helper(
    tmp_path: Path, language_run: Any, settings: tuple[str, ...]
) -> None:
    config, run = tmp_path / "run.yaml", tmp_path / "run"
    config.write_text(language_run.warmed_text)

    process = start(config, run, *settings)
    assert wait_for_event(process, run, "published", 4)
    (trainer,) = workers(process.pid, TRAINER)
    helper = kill_worker(process, HELPER)
    assert wait_for_event(process, run, "worker_lost", 1)
    assert wait_until(lambda: is_gone(trainer) and is_gone(helper), 5.0), "they are replaced together"
    assert wait_for_event(process, run, "published", 7)

    ours = descendants(process.pid)
    assert len(workers(process.pid, HELPER)) == 1
    kill(process)
    assert wait_until(lambda: all(is_gone(pid) for pid in ours), 5.0), "somebody was left behind"
    one = ("train.trainers=1", "train.sharding=null", "train.tokens_per_micro_batch=64")
    code, error = finish(start(config, run, *one, "train.activation_checkpointing=true"))
    assert code == 0, error

    for version in (1, 2):
        for name, tensor in weights(language_run.path, version).items():
            np.testing.assert_allclose(weights(run, version)[name], tensor, rtol=0, atol=1e-5, err_msg=name)
    expected, found = first_metrics(language_run.path), first_metrics(run)
    for name in ("train/loss", "train/grad_norm", "train/entropy"):
        assert found[name] == pytest.approx(expected[name], rel=1e-3, abs=1e-5), name
    assert training_tasks(run) == list(range(max(training_tasks(run)) + 1))
    assert count_events(run, "worker_lost") == 1
    assert not list(run.rglob(".tmp-*"))


@pytest.mark.slow
@pytest.mark.parametrize("settings", [WHOLE, SHARDED], ids=["whole", "sharded"])
def test_a_trainer_that_is_killed_takes_its_helper_along(
    tmp_path: Path, language_run: Any, settings: tuple[str, ...]
) -> None:
    config, run = tmp_path / "run.yaml", tmp_path / "run"
    config.write_text(language_run.warmed_text)
    process = start(config, run, *settings)
    assert wait_for_event(process, run, "published", 2)
    (helper,) = workers(process.pid, HELPER)
    kill_worker(process, TRAINER)
    assert wait_until(lambda: is_gone(helper), 5.0)
    code, error = finish(process)
    assert code == 0, error
    assert count_events(run, "worker_lost") == 1
    assert signal.SIGKILL.name in next(
        event["reason"] for event in read_jsonl(run / "events.jsonl") if event["event"] == "worker_lost"
    )


@pytest.mark.slow
def test_a_network_with_two_trainers_ends_with_the_same_bits_whoever_is_killed(tmp_path: Path) -> None:
    config, whole, broken = tmp_path / "run.yaml", tmp_path / "whole", tmp_path / "broken"
    config.write_text(BOARDS)
    code, error = finish(start(config, whole))
    assert code == 0, error
    run_through(config, broken, [Moment(who=HELPER, more=3), Moment(who=TRAINER, more=2), Moment(more=2)], seed=1)
    assert count_events(broken, "worker_lost") == 2
    assert describe(broken) == describe(whole)
    assert not list(broken.rglob(".tmp-*"))
