"""`ludus replay` of an attempt at a task."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ludus.cli.app import app
from ludus.records import Episode, EpisodeId, PolicyName, PolicyRef, Seat, Task, TaskId
from ludus.storage.arrow import episodes_to_table
from ludus.storage.catalog import Catalog
from ludus.storage.run_directory import RunDirectory
from ludus.storage.segments import SegmentLog


@pytest.fixture
def attempted(tmp_path: Path) -> Path:
    run = RunDirectory(tmp_path / "run")
    run.create("name: tasks\ntasks: ['ludus/arithmetic']\npolicy: {model: {path: ludus/tiny}}\n")
    seats = (Seat(policy=PolicyRef(name=PolicyName("main")), learns=True),)
    task = Task(id=TaskId(3), game="tasks:arithmetic", seed=1, seats=seats, inputs={"prompt": "1+1="})
    episode = Episode(
        id=EpisodeId("ab12"),
        task=task,
        returns=(0.5,),
        move_plies=np.arange(2, dtype=np.int32),
        move_seats=np.zeros(2, np.int16),
        move_actions=np.ones(2, np.int32),
        move_texts=("1+1=", "Sure?"),
        replies=("3", "2"),
        rewards={"exact": 1.0, "length": -0.5},
    )
    other = Task(id=TaskId(4), game=task.game, seed=2, seats=seats)
    failed = Episode.failed(EpisodeId("cd34"), other, "EnvError: boom")
    with Catalog(run.catalog) as catalog:
        log = SegmentLog(run.path, "episodes", catalog)
        log.append(episodes_to_table([episode, failed]))
        log.commit()
    return run.path


def test_an_attempt_is_read_back_with_its_rewards(attempted: Path) -> None:
    shown = CliRunner().invoke(app, ["replay", str(attempted), "ab"], catch_exceptions=False).output
    assert "  1. told: 1+1=\n  1. said: 3\n  2. told: Sure?\n  2. said: 2\n" in shown
    assert "reward exact: 1\nreward length: -0.5\nreturn: 0.5" in shown
    short = CliRunner().invoke(app, ["replay", str(attempted), "ab", "--moves"], catch_exceptions=False).output
    assert "told" not in short


def test_a_failed_attempt_says_why(attempted: Path) -> None:
    shown = CliRunner().invoke(app, ["replay", str(attempted), "last"], catch_exceptions=False).output
    assert "it failed: EnvError: boom" in shown
