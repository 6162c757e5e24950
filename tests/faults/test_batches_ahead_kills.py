"""Synchronous runs that play ahead of training: both at once, and killed at random moments they end as if nothing was.

Who sits where, and which task is attempted, was decided before the kill from a league and beliefs that have changed
since: it must come out of the checkpoint. The ordinary run kills a few times; `make faults` fifty times.
"""

import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from killing import (
    EXPLORER,
    RUN,
    TRAINER,
    Moment,
    count_events,
    describe,
    finish,
    kill,
    run_through,
    start,
    training_tasks,
    wait_for_event,
    wait_until,
    workers,
)

from ludus.lm.tiny_model import make_tiny_model
from ludus.storage.checkpoints import CheckpointStore
from ludus.storage.jsonl import read_jsonl
from ludus.storage.segment_reader import SegmentReader

KILLS = 50
BATCH = 8
BOARD = """
name: ahead
games: [open_spiel:tic_tac_toe]
topology: split
synchronise: {interval: 2, offset: 3}
explore: {games_in_flight: 8, workers: 2}
policy: {network: {kind: mlp, hidden: [8]}}
experience: {final: [{kind: role_advantage}]}
train: {steps: STEPS, batch_episodes: 8, minibatch: 64, epochs: 1}
league: {opponents: [{kind: mirror, weight: 2}, {kind: pfsp}, {kind: lagged}], snapshot_every: 100, pool_size: 3}
evaluate: {against: [random], games: 4, every: 200, final_games: 4}
telemetry: {tensorboard: false, every_s: 0}
runtime: {max_restarts: 1000}
"""
TASKS = """
name: sums
tasks: [{path: "ludus/arithmetic?digits=1&count=60", order: adaptive}]
synchronise: {offset: 2}
rewards: [{kind: exact}, {kind: format, pattern: "[0-4]", weight: 0.1}]
policy: {model: {path: MODEL, lora: null}}
explore: {games_in_flight: 8, group: 4, sampling: {max_tokens: 3}}
experience: {operators: [{kind: zero_variance}]}
train: {steps: STEPS, batch_episodes: 8, minibatch: 16, optimizer: {learning_rate: 0.00001}, algorithm: {preset: grpo}}
evaluate: {every: 400, tasks: [{path: "ludus/arithmetic?digits=1&count=8", split: test, name: held_out}]}
telemetry: {tensorboard: false, every_s: 0}
runtime: {max_restarts: 1000}
"""


def write(folder: Path, text: str, *, steps: int) -> Path:
    path = folder / "run.yaml"
    path.write_text(text.replace("STEPS", str(steps)))
    return path


def write_tasks(folder: Path, text: str = TASKS, *, steps: int) -> Path:
    model = make_tiny_model(folder / "tiny", layers=1, width=16, heads=2, kv_heads=1)
    return write(folder, text.replace("MODEL", str(model)), steps=steps)


def random_moments(dice: random.Random, kills: int) -> list[Moment]:
    """Half of the kills end the run, the others one of its workers."""
    moments = [Moment(event="started", within_s=2.0)]
    while len(moments) < kills:
        was_killed = moments[-1].who == RUN
        who = dice.choice((RUN, RUN, EXPLORER, TRAINER))
        event = "started" if was_killed else "published"
        moments.append(Moment(who=who, event=event, within_s=2.0 if was_killed else 0.5))
    return moments


def check_same(broken: Path, config: Path) -> None:
    """Weights, optimizer, league, task order, every episode and every row are those of a run that nobody disturbed."""
    whole = broken.with_name("whole")
    code, error = finish(start(config, whole))
    assert code == 0, error
    found, expected = describe(broken), describe(whole)
    for part in ("progress", "files", "league", "episodes"):
        assert found[part] == expected[part], part
    assert experience(broken) == experience(whole)
    for part in ("tasks", "issued"):
        assert state(broken).get(part) == state(whole).get(part), part


def state(run: Path) -> dict[str, Any]:
    checkpoint = CheckpointStore(run / "checkpoints", keep=2).latest(strict=True)
    assert checkpoint is not None
    return checkpoint.state


def experience(run: Path) -> dict[tuple[str, int], tuple[Any, ...]]:
    return {
        (row["episode"], row["seat"]): (row["task"], row["version"], row["final_reward"], row["action"], row["logp"])
        for _, table in SegmentReader(run / "experiences").scan()
        for row in table.to_pylist()
    }


@pytest.mark.slow
def test_the_next_batch_is_played_while_the_trainer_is_at_work(tmp_path: Path) -> None:
    """While the trainer stands still in the middle of an update, the batch after it is played to its end, and no more."""
    text = BOARD.replace("{interval: 2, offset: 3}", "{offset: 1}")
    run = tmp_path / "run"
    process = start(write(tmp_path, text, steps=100_000), run)
    assert wait_for_event(process, run, "published", 3), finish(process)
    (trainer,) = workers(process.pid, TRAINER)
    os.kill(trainer, signal.SIGSTOP)

    def is_all_played() -> bool:
        updates = count_events(run, "published") - 1
        return training_tasks(run) == list(range((updates + 2) * BATCH))

    try:
        assert wait_until(is_all_played, 120.0), (count_events(run, "published"), len(training_tasks(run)))
        os.kill(trainer, signal.SIGCONT)
        assert wait_for_event(process, run, "published", count_events(run, "published") + 2), finish(process)
    finally:
        kill(process)


@pytest.mark.slow
def test_a_killed_run_that_plays_ahead_ends_as_the_unbroken_one(tmp_path: Path) -> None:
    config = write(tmp_path, BOARD, steps=1000)
    moments = [Moment(more=3), Moment(who=EXPLORER), Moment(who=TRAINER), Moment()]
    run_through(config, tmp_path / "run", moments, seed=1)
    check_same(tmp_path / "run", config)


@pytest.mark.slow
def test_a_killed_run_on_adaptive_tasks_that_plays_ahead_ends_as_the_unbroken_one(tmp_path: Path) -> None:
    config = write_tasks(tmp_path, steps=130)
    run_through(config, tmp_path / "run", [Moment(more=4)], seed=2)
    check_same(tmp_path / "run", config)


@pytest.mark.slow
def test_a_killed_run_that_refills_its_batches_ends_as_the_unbroken_one(tmp_path: Path) -> None:
    text = TASKS.replace("synchronise: {offset: 2}\n", "").replace("group: 4", "group: 4, refill: 6")
    config = write_tasks(tmp_path, text, steps=400)
    run_through(config, tmp_path / "run", [Moment(more=3), Moment(who=EXPLORER), Moment()], seed=5)
    check_same(tmp_path / "run", config)


def check_same_training(broken: Path, config: Path) -> None:
    """As `check_same`, but for episodes that were cut off: whether they are in the log depends on who was how fast."""
    whole = broken.with_name("whole")
    code, error = finish(start(config, whole))
    assert code == 0, error
    found, expected = describe(broken), describe(whole)
    for part in ("progress", "files", "league"):
        assert found[part] == expected[part], part
    for part in ("tasks", "issued", "done_before", "done_above"):
        assert state(broken).get(part) == state(whole).get(part), part
    cut = cut_off(whole)
    assert cut
    assert cut_off(broken) == cut
    rows, expected_rows = experience(broken), experience(whole)
    assert {key: row for key, row in rows.items() if row[0] not in cut} == {
        key: row for key, row in expected_rows.items() if row[0] not in cut
    }


def cut_off(run: Path) -> set[int]:
    events = [event for event in read_jsonl(run / "events.jsonl") if event["event"] == "cut_off"]
    return {task for event in events for task in event["tasks"]}


@pytest.mark.slow
def test_a_killed_run_that_cuts_stragglers_off_ends_as_the_unbroken_one(tmp_path: Path) -> None:
    config = write(tmp_path, BOARD.replace("workers: 2", "workers: 2, cut_off: 0.7"), steps=1000)
    moments = [Moment(more=3), Moment(who=EXPLORER), Moment(who=TRAINER), Moment(), Moment(event="cut_off")]
    run_through(config, tmp_path / "run", moments, seed=6)
    check_same_training(tmp_path / "run", config)


@pytest.mark.slow
def test_a_killed_run_on_adaptive_tasks_that_cuts_groups_off_ends_as_the_unbroken_one(tmp_path: Path) -> None:
    text = TASKS.replace("group: 4", "group: 4, cut_off: 0.5").replace("max_tokens: 3", "max_tokens: 30")
    config = write_tasks(tmp_path, text, steps=800)
    moments = [Moment(more=2), Moment(who=EXPLORER), Moment(event="cut_off"), Moment()]
    run_through(config, tmp_path / "run", moments, seed=7)
    check_same_training(tmp_path / "run", config)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_fifty_kills_of_a_run_that_plays_ahead_change_nothing(tmp_path: Path) -> None:
    config = write(tmp_path, BOARD, steps=30_000)
    run_through(config, tmp_path / "run", random_moments(random.Random(3), KILLS), seed=3)
    check_same(tmp_path / "run", config)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_fifty_kills_of_a_run_on_adaptive_tasks_change_nothing(tmp_path: Path) -> None:
    config = write_tasks(tmp_path, steps=12_000)
    run_through(config, tmp_path / "run", random_moments(random.Random(4), KILLS), seed=4)
    check_same(tmp_path / "run", config)
