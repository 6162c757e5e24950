"""Runs that compare attempts with greedy ones (remax), or with a teacher (distill), killed in part and whole.

Synchronous: they end with the weights, episodes and rows of the unbroken run; the teacher stays the one that it was.
"""

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from killing import RUN, TRAINER, Moment, describe, finish, run_through, start

from ludus.lm.tiny_model import make_tiny_model
from ludus.storage.segment_reader import SegmentReader

CONFIG = """
name: compared
seed: 5
tasks: [{path: "ludus/arithmetic?digits=1&count=60", order: adaptive}]
rewards: [{kind: length, longest: 6, buffer: 6, unit: characters}, {kind: exact}]
policy: {model: {path: MODEL, lora: null}}
explore: {games_in_flight: 8, group: 4, sampling: {max_tokens: 3}}
experience: {operators: [{kind: deduplicate}]}
train: {steps: 300, batch_episodes: 8, minibatch: 3, algorithm: {preset: remax}}
evaluate: {every: 1000000}
telemetry: {tensorboard: false, every_s: 0}
runtime: {max_restarts: 1000}
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("model") / "tiny", layers=1, width=16, heads=2, kv_heads=1)


def rows(run: Path) -> dict[str, tuple[Any, ...]]:
    columns = ("task", "group", "greedy", "shaped_reward", "action", "logp")
    tables = [table for _, table in SegmentReader(run / "experiences").scan()]
    return {row["episode"]: tuple(row.get(c) for c in columns) for table in tables for row in table.to_pylist()}


def check_kills_change_nothing(tmp_path: Path, text: str) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(text)
    run_through(config, tmp_path / "run", [Moment(who=TRAINER, more=2), Moment(who=RUN, more=2)], seed=1)
    code, error = finish(start(config, tmp_path / "whole"))
    assert code == 0, error
    assert describe(tmp_path / "run") == describe(tmp_path / "whole")
    assert rows(tmp_path / "run") == rows(tmp_path / "whole")


@pytest.mark.slow
def test_a_killed_run_with_greedy_attempts_ends_as_the_unbroken_one(tmp_path: Path, model: Path) -> None:
    check_kills_change_nothing(tmp_path, CONFIG.replace("MODEL", str(model)))
    greedy = [row[0] for row in rows(tmp_path / "run").values() if row[2]]
    assert len(greedy) > 10
    assert {task % 4 for task in greedy} == {3}


@pytest.mark.slow
def test_a_killed_run_with_a_teacher_ends_as_the_unbroken_one(tmp_path: Path, model: Path) -> None:
    teacher = shutil.copytree(model, tmp_path / "teacher")
    text = CONFIG.replace("preset: remax", "preset: distill").replace("policy: {", f"policy: {{teacher: {teacher}, ")
    check_kills_change_nothing(tmp_path, text.replace("MODEL", "ludus/mini"))
