"""Rows of other runs come into the buffer once each, whatever happens on either side."""

import json
import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from feeding import EXPLORER, FakeExplorer, Trainer, rows_in_log

from ludus.config import LanguageModelConfig
from ludus.errors import ConfigError
from ludus.experience import MOST_TASKS
from ludus.lm.language_shape import LanguageModelShape
from ludus.records import PolicyName, PolicyRef, PolicyVersion
from ludus.sources.feed import FIRST_TASK, check_fit

CYCLE = "cycle: {new_sequences: 8, updates: 1}\n"


@pytest.fixture
def opened() -> Iterator[list[Any]]:
    things: list[Any] = []
    yield things
    for thing in things:
        thing.close()


def test_a_run_that_is_not_there_yet_is_waited_for_and_then_read_as_it_grows(tmp_path: Path, opened: list[Any]) -> None:
    trainer = Trainer(tmp_path, feeds=("a",))
    opened.append(trainer)
    assert trainer.feeds.take_in()
    assert len(trainer.buffer) == 0
    explorer = FakeExplorer(tmp_path / "a")
    opened.append(explorer)
    trainer.take_all()
    assert len(trainer.buffer) == 0
    for count in (3, 5):
        explorer.play(count)
        trainer.take_all()
    assert trainer.buffer.counters["inserted"] == 8
    assert trainer.feeds.metrics == {"buffer/feeds_taken": 8.0, "buffer/feeds_missed": 0.0, "buffer/feeds_damaged": 0.0}


def test_rows_of_two_runs_with_the_same_names_and_tasks_are_told_apart(tmp_path: Path, opened: list[Any]) -> None:
    explorers = [FakeExplorer(tmp_path / name) for name in "ab"]
    trainer = Trainer(tmp_path)
    opened += [*explorers, trainer]
    for explorer in explorers:
        explorer.play(5, group=np.full(5, "same", object))
    trainer.take_all()
    rows = rows_in_log(trainer.run.path)
    assert rows == [
        (FIRST_TASK + number * MOST_TASKS + task, f"{number}-episode-{task}", 0)
        for number in (0, 1)
        for task in range(5)
    ]
    claim = trainer.buffer.claim(0, seed=0)
    assert claim is not None
    taken = trainer.buffer.read(claim)
    assert set(taken.sequences["group"].tolist()) == {"0-same"}, "a group is a group of its own run"


@pytest.mark.parametrize("text", ["", CYCLE], ids=["as it comes", "cycle"])
def test_whatever_moment_it_goes_back_to_no_row_is_lost_or_doubled(
    tmp_path: Path, opened: list[Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ludus.sources.feeds.MOST_ROWS", 4)
    dice = random.Random(7)
    explorers = [FakeExplorer(tmp_path / name) for name in "ab"]
    opened += explorers
    played, saved = 0, None
    for _ in range(12):
        for explorer in explorers:
            for _ in range(dice.randrange(3)):
                played += len(explorer.play(dice.randrange(1, 6)))
        trainer = Trainer(tmp_path, text, saved=saved)
        for _ in range(dice.randrange(6)):
            trainer.feeds.take_in()
            if dice.random() < 0.3:
                saved = trainer.state()
        trainer.close()  # without a checkpoint of what it took in since
    trainer = Trainer(tmp_path, text, saved=saved)
    opened.append(trainer)
    trainer.take_all()
    rows = rows_in_log(trainer.run.path)
    assert len(rows) == len(set(rows)) == played == len(trainer.buffer)
    assert trainer.buffer.counters["inserted"] == played


def test_without_a_cycle_what_does_not_fit_waits_where_it_is(tmp_path: Path, opened: list[Any]) -> None:
    explorer = FakeExplorer(tmp_path / "a")
    trainer = Trainer(tmp_path, "buffer: {feeds: [FEEDS], capacity: 8}\n", feeds=("a",))
    opened += [explorer, trainer]
    for _ in range(6):
        explorer.play(3)
    trainer.take_all()
    assert len(trainer.buffer) == 6
    trainer.train(1)
    assert trainer.feeds.take_in()
    assert len(trainer.buffer) == 2, "there is more room only from the next checkpoint on"
    trainer.state()
    trainer.take_all()
    assert len(trainer.buffer) == 8
    assert trainer.buffer.counters["evicted_unused"] == 0
    assert not trainer.feeds.take_in(is_starving=True), "something must come in when there is nothing to train on"
    assert trainer.buffer.counters["inserted"] == 15


def test_with_a_cycle_everything_comes_in_and_the_oldest_make_room(tmp_path: Path, opened: list[Any]) -> None:
    explorer = FakeExplorer(tmp_path / "a")
    trainer = Trainer(tmp_path, CYCLE + "buffer: {feeds: [FEEDS], capacity: 8}\n", feeds=("a",))
    opened += [explorer, trainer]
    for _ in range(6):
        explorer.play(3)
    trainer.take_all()
    assert trainer.buffer.counters["inserted"] == 18
    assert len(trainer.buffer) == 8
    assert trainer.buffer.counters["evicted_unused"] == 10


def test_a_run_that_is_made_anew_in_the_same_place_is_another_one(tmp_path: Path, opened: list[Any]) -> None:
    explorer = FakeExplorer(tmp_path / "a")
    trainer = Trainer(tmp_path, feeds=("a",))
    opened.append(trainer)
    explorer.play(4)
    trainer.take_all()
    explorer.close()
    (tmp_path / "a").rename(tmp_path / "old")
    again = FakeExplorer(tmp_path / "a")
    opened.append(again)
    again.play(4)
    trainer.take_all()
    rows = rows_in_log(trainer.run.path)
    assert [episode for _, episode, _ in rows] == [f"{run}-episode-{task}" for run in (0, 1) for task in range(4)]


def test_a_run_that_was_moved_is_the_same_one(tmp_path: Path, opened: list[Any]) -> None:
    explorer = FakeExplorer(tmp_path / "a")
    trainer = Trainer(tmp_path, feeds=("a",))
    explorer.play(4)
    trainer.take_all()
    saved = trainer.state()
    trainer.close()
    explorer.play(2)
    explorer.close()
    (tmp_path / "a").rename(tmp_path / "elsewhere")
    trainer = Trainer(tmp_path, feeds=("elsewhere",), saved=saved)
    opened.append(trainer)
    trainer.take_all()
    assert len(rows_in_log(trainer.run.path)) == 6


def test_rows_that_make_no_sense_are_refused_and_counted(tmp_path: Path, opened: list[Any]) -> None:
    explorer = FakeExplorer(tmp_path / "a")
    trainer = Trainer(tmp_path, feeds=("a",))
    opened += [explorer, trainer]
    explorer.play(3, final_reward=np.array([0.0, np.nan, 7.0], np.float32))
    explorer.play(2, task=np.array([FIRST_TASK, 3]))
    explorer.play(2)
    trainer.take_all()
    assert trainer.refusals.counts == {"not_finite": 1, "out_of_range": 1, "schema": 1}
    assert len(trainer.buffer) == 4


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            EXPLORER.replace("tic_tac_toe", "connect_four"),
            "plays open_spiel:connect_four, which is no game of this run",
        ),
        (EXPLORER.replace("explore\n", "train\nbuffer: {feeds: [runs/x]}\n"), "is fed by other runs itself"),
        (EXPLORER.replace("network: {kind: mlp, hidden: [8]}", "model: {path: tiny}"), "is a language model's"),
    ],
)
def test_a_run_that_cannot_be_learnt_from_is_refused_with_the_reason(
    tmp_path: Path, opened: list[Any], text: str, why: str
) -> None:
    opened += [FakeExplorer(tmp_path / "a", text), trainer := Trainer(tmp_path, feeds=("a",))]
    with pytest.raises(ConfigError, match=f"buffer.feeds.0: {tmp_path}/a {why}"):
        trainer.feeds.take_in()


def test_a_run_cannot_feed_itself_nor_can_a_run_in_stages_feed_another(tmp_path: Path, opened: list[Any]) -> None:
    with pytest.raises(ConfigError, match="is this run itself"):
        Trainer(tmp_path, feeds=("trainer",))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "stages.json").write_text("{}")
    opened.append(trainer := Trainer(tmp_path, feeds=("a",)))
    with pytest.raises(ConfigError, match="is a run in stages"):
        trainer.feeds.take_in()


def test_only_rows_of_this_policy_grow_old_whatever_their_versions_are_called(
    tmp_path: Path, opened: list[Any]
) -> None:
    ours, theirs = FakeExplorer(tmp_path / "a"), FakeExplorer(tmp_path / "b")
    trainer = Trainer(tmp_path, "schedule: async\n")
    opened += [ours, theirs, trainer]
    weights = {"w": np.zeros(3, np.float32)}
    for explorer, made_with in ((ours, weights), (theirs, {"w": np.ones(3, np.float32)})):
        store = type(trainer.store.policies)(explorer.run.policies)
        ref = PolicyRef(name=PolicyName("main"), version=PolicyVersion(0))
        store.publish(ref, made_with, trainer.context.shape, step=0)
        explorer.play(6)
    third = PolicyRef(name=PolicyName("main"), version=PolicyVersion(3))
    digest = trainer.store.policies.publish(third, weights, trainer.context.shape, step=0)
    with trainer.store.catalog.transaction():
        trainer.store.catalog.add_policy(third, weights_hash=digest)
    trainer.take_all()
    claim = trainer.buffer.claim(5, seed=0)
    assert claim is not None
    assert claim.staleness.tolist() == [2, 2, 2, 2], "version 0 there is version 3 here"
    trainer.buffer.commit(claim)
    assert trainer.buffer.claim(6, seed=0) is not None
    assert trainer.buffer.counters["stale"] == 2
    assert len(trainer.buffer) == 6, "rows of another policy are of no age"


def test_language_models_must_have_the_same_tokenizer_and_need_not_have_the_same_weights(tmp_path: Path) -> None:
    from ludus.lm.tiny_model import make_tiny_model

    models = [
        make_tiny_model(tmp_path / name, layers=1, width=width, heads=2, kv_heads=1)
        for name, width in (("small", 16), ("large", 32))
    ]
    others = tmp_path / "others"
    shutil.copytree(models[0], others)
    note = json.loads((others / "tokenizer_config.json").read_text())
    (others / "tokenizer_config.json").write_text(json.dumps({**note, "model_max_length": 7}))
    shape = LanguageModelShape(model=LanguageModelConfig(path=str(models[0])), critic=False, games=())
    rooms: Any = SimpleNamespace(shape=shape, specs={"open_spiel:tic_tac_toe": None}, config=None)
    for folder in (models[1], others):
        explorer = FakeExplorer(
            tmp_path / f"run-{folder.name}",
            EXPLORER.replace("network: {kind: mlp, hidden: [8]}", f"model: {{path: {folder}}}"),
        )
        explorer.close()
        if folder == others:
            with pytest.raises(ConfigError, match="has another tokenizer than"):
                check_fit("buffer.feeds.0", explorer.run, rooms)
        else:
            check_fit("buffer.feeds.0", explorer.run, rooms)
