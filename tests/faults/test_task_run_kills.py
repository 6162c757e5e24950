"""MIX on a taskset with an adaptive order and operators: the run, its explorer or its trainer killed at random moments.

Synchronous: task order, experience, weights, posteriors and the place in the experts' rows are those of the unbroken
run. Asynchronous: nothing that was acknowledged is lost, nothing is there twice, and both streams go on. The ordinary
run kills twice, a synchronous one; `make faults` fifty times each.
"""

import random
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
    check_nothing_is_doubled,
    describe,
    finish,
    run_through,
    start,
)

from ludus.lm.tiny_model import make_tiny_model
from ludus.storage.checkpoints import CheckpointStore
from ludus.storage.jsonl import read_jsonl
from ludus.storage.segment_reader import SegmentReader

KILLS = 50
CONFIG = """
name: sums
seed: 3
tasks: [{path: "ludus/arithmetic?digits=1&count=60", order: adaptive}]
rewards: [{kind: exact}, {kind: length, label: short, weight: 0.1, longest: 3, buffer: 2}]
policy: {model: {path: MODEL, lora: null}}
explore: {games_in_flight: 8, group: 4, sampling: {max_tokens: 3}}
experience: {operators: [{kind: deduplicate}]}
buffer: {expert: {sources: [{path: "ludus/arithmetic?digits=1&count=60", fields: {prompt: prompt, response: answer}}], rows: 8}}
train: {steps: STEPS, batch_episodes: 8, minibatch: 16, algorithm: {preset: mix}}
evaluate: {every: 400, tasks: [{path: "ludus/arithmetic?digits=1&count=8", split: test, name: held_out}]}
telemetry: {tensorboard: false, every_s: 0}
runtime: {max_restarts: 1000}
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("model") / "tiny", layers=1, width=16, heads=2, kv_heads=1)


def write(folder: Path, model: Path, *, steps: int, more: str = "") -> Path:
    path = folder / "run.yaml"
    path.write_text(CONFIG.replace("MODEL", str(model)).replace("STEPS", str(steps)) + more)
    return path


def random_moments(dice: random.Random, kills: int) -> list[Moment]:
    """A third of the kills end the run, a third each its explorer and its trainer."""
    moments = [Moment(event="started", within_s=2.0)]
    while len(moments) < kills:
        was_killed = moments[-1].who == RUN
        who = dice.choice((RUN, EXPLORER, TRAINER))
        event = "started" if was_killed else "published"
        moments.append(Moment(who=who, event=event, within_s=2.0 if was_killed else 0.5))
    return moments


def check_same(broken: Path, whole: Path) -> None:
    found, expected = describe(broken), describe(whole)
    for part in ("progress", "files", "league", "episodes"):
        assert found[part] == expected[part], part
    for name in ("tasks", "side", "refused"):
        assert state(broken)[name] == state(whole)[name], name
    for counter in ("inserted", "committed", "lost", "discarded"):
        assert state(broken)["buffer"]["counters"][counter] == state(whole)["buffer"]["counters"][counter], counter
    assert experience(broken) == experience(whole)


def state(run: Path) -> dict[str, Any]:
    checkpoint = CheckpointStore(run / "checkpoints", keep=2).latest(strict=True)
    assert checkpoint is not None
    return checkpoint.state


def experience(run: Path) -> dict[str, tuple[Any, ...]]:
    """Every verified sequence by its episode: task, reward and tokens."""
    return {
        row["episode"]: (row["task"], row["group"], row["final_reward"], row["action"], row["mask"], row["logp"])
        for _, table in SegmentReader(run / "experiences").scan()
        for row in table.to_pylist()
    }


def both_streams_went_on(run: Path) -> None:
    trained = [line for line in read_jsonl(run / "metrics.jsonl") if "train/sft" in line]
    assert trained[-1]["buffer/expert_epochs"] > trained[0]["buffer/expert_epochs"]
    assert "train/ppo_clip" in trained[-1]


def test_a_killed_run_on_tasks_ends_as_the_unbroken_one(tmp_path: Path, model: Path) -> None:
    config = write(tmp_path, model, steps=300)
    run_through(config, tmp_path / "run", [Moment(who=TRAINER, more=2), Moment(who=RUN, more=2)], seed=1)
    code, error = finish(start(config, tmp_path / "whole"))
    assert code == 0, error
    check_same(tmp_path / "run", tmp_path / "whole")
    both_streams_went_on(tmp_path / "run")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_fifty_kills_change_nothing(tmp_path: Path, model: Path) -> None:
    config = write(tmp_path, model, steps=6000)
    run_through(config, tmp_path / "run", random_moments(random.Random(4), KILLS), seed=4)
    code, error = finish(start(config, tmp_path / "whole"))
    assert code == 0, error
    check_same(tmp_path / "run", tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_fifty_kills_of_an_asynchronous_run(tmp_path: Path, model: Path) -> None:
    config = write(tmp_path, model, steps=6000, more="schedule: async\n")
    run_through(config, tmp_path / "run", random_moments(random.Random(5), KILLS), seed=5)
    check_nothing_is_doubled(tmp_path / "run", unacknowledged=KILLS * 8)
    both_streams_went_on(tmp_path / "run")
