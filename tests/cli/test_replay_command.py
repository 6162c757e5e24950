"""`ludus replay` of an attempt at a task, and of a game on a board."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ludus.cli.app import app
from ludus.games.board_text import label_board
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


@pytest.fixture
def played(tmp_path: Path) -> Path:
    run = RunDirectory(tmp_path / "played")
    run.create("name: played\ngames: ['open_spiel:tic_tac_toe']\n")
    seats = tuple(Seat(policy=PolicyRef(name=PolicyName("main"), version=version)) for version in (1, 2))
    episode = Episode(
        id=EpisodeId("ef56"),
        task=Task(id=TaskId(1), game="open_spiel:tic_tac_toe", seed=1, seats=seats),
        returns=(1.0, -1.0),
        move_plies=np.arange(5, dtype=np.int32),
        move_seats=np.array([0, 1, 0, 1, 0], np.int16),
        move_actions=np.array([0, 3, 1, 4, 2], np.int32),
    )
    with Catalog(run.catalog) as catalog:
        log = SegmentLog(run.path, "episodes", catalog)
        log.append(episodes_to_table([episode]))
        log.commit()
    return run.path


def test_the_result_comes_first_and_columns_are_labelled(played: Path) -> None:
    _, result, *moves = CliRunner().invoke(app, ["replay", str(played)], catch_exceptions=False).output.splitlines()
    assert result == "result: seat 0 (main@1) won after 5 moves; returns seat 0: 1, seat 1: -1"
    assert moves[:5] == ["  1. seat 0 plays x(0,0)", "0  x . .", "1  . . .", "2  . . .", "   0 1 2"]
    assert len([line for line in moves if " plays " in line]) == 5


def test_in_a_terminal_moves_come_one_by_one(played: Path) -> None:
    def watch(keys: str) -> str:
        mine, theirs = os.openpty()
        command = [sys.executable, "-m", "ludus.cli.app", "replay", str(played)]
        with subprocess.Popen(command, stdin=theirs, stdout=theirs) as process:
            os.close(theirs)
            os.write(mine, keys.encode())
            said = b""
            try:
                while part := os.read(mine, 65536):
                    said += part
            except OSError:  # the terminal's other side is gone
                pass
            assert process.wait(60) == 0
        os.close(mine)
        return said.decode()

    assert watch("\nq\n").count(" plays ") == 2
    assert watch("\na\n").count(" plays ") == 5


def test_text_that_is_no_board_is_left_alone() -> None:
    assert label_board("ab\ncd") == "0  a b\n1  c d\n   0 1"
    for text in ("two words\nand more.", "abc", "ab\ncde", "", "heap\nmove\n12 left"):
        assert label_board(text) == text


def test_a_board_is_labelled_as_plugins_draw_them() -> None:
    drawn = "0  . x\n1  o .\n   0 1"
    for board in (".x\no.", ". x\no .", "|.|x|\n|o|.|", " . | x \n o | . "):
        assert label_board(board) == drawn
        assert label_board(f"{board}\nseat 0 to move") == f"{drawn}\nseat 0 to move"


def test_a_board_with_labels_of_its_own_gets_no_others() -> None:
    for text in ("  a b c\n1 . x .\n2 o . .\n3 . . .", "3..\n2x.\n1.o\n ab", "0 1 2\n. x .", "-6-1\n2--0\nseat 0"):
        assert label_board(text) == text
