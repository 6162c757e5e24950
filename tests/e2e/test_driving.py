"""A run driven by a program: start, pause, resume, checkpoint, stop, status; and the modes of the split topology."""

import threading
import time
from pathlib import Path

import pytest

from ludus import SingleRun, parse_config
from ludus.errors import ConfigError, LudusError
from ludus.runs.driver import Status
from ludus.storage.checkpoints import CheckpointStore, newest_whole
from ludus.storage.jsonl import read_jsonl
from ludus.storage.segment_reader import SegmentReader

ENDLESS = """
name: driven
games: [pgx:tic_tac_toe]
explore: {games_in_flight: 32, noise: 0.05}
policy: {network: {kind: mlp, hidden: [16]}}
train: {steps: 1000000000, batch_steps: 512, minibatch: 128, epochs: 1}
evaluate: {against: [random], games: 2, final_games: 2, every: 100000000}
league: {opponents: [{kind: mirror, weight: 2}, {kind: pfsp}, {kind: fixed, players: [random]}], snapshot_every: 100000000}
checkpoint: {every: 1000000}
telemetry: {tensorboard: false, every_s: 0}
"""
SPLIT = """
name: modes
games: [open_spiel:tic_tac_toe]
topology: split
schedule: async
policy: {network: {kind: mlp, hidden: [8]}}
explore: {games_in_flight: 16}
buffer: {capacity: 200}
train: {steps: 1000000, batch_episodes: 32, minibatch: 64, epochs: 1}
evaluate: {against: [], games: 0, final_games: 0}
telemetry: {tensorboard: false, every_s: 0}
"""


def wait_for_update(loop: SingleRun, update: int) -> Status:
    end = time.monotonic() + 120
    while (status := loop.wait(0.02)).update < update:
        assert not status.is_over
        assert time.monotonic() < end
    return status


def test_a_run_can_be_started_paused_saved_resumed_and_stopped(tmp_path: Path) -> None:
    loop = SingleRun(parse_config(ENDLESS, "driven.yaml"), tmp_path / "run")
    assert loop.start().stage == "starting"
    with pytest.raises(LudusError, match="started already"):
        loop.start()
    wait_for_update(loop, 2)
    loop.pause()
    end = time.monotonic() + 30
    while loop.status().stage != "paused":
        assert time.monotonic() < end
    held = loop.status()
    saved = loop.checkpoint()
    assert saved.update == held.update
    store = CheckpointStore(tmp_path / "run" / "checkpoints", keep=3)
    assert store.list()[-1] == held.update
    with pytest.raises(ConfigError, match="cannot be set while a run is going"):
        loop.set_keys({"seed": 3})
    loop.set_keys({"checkpoint.every": 2})
    assert "every: 2\n" in (tmp_path / "run" / "config.yaml").read_text()
    readings = loop.room_readings()
    assert readings["train"].count == held.update
    assert readings["storage"].count >= 2
    loop.resume()
    wait_for_update(loop, held.update + 4)
    assert store.list()[-1] > held.update
    loop.stop()
    status = loop.wait(60)
    assert status.stage == "stopped"
    assert status.is_over
    assert store.list()[-1] == status.update
    assert status.metrics["train/entropy"] > 0
    assert not [thread for thread in threading.enumerate() if thread.name in ("loop", "telemetry")]


def test_every_metric_is_a_number(finished_run: Path) -> None:
    for line in read_jsonl(finished_run / "metrics.jsonl"):
        assert all(isinstance(value, (int, float)) for value in line.values())


def test_exploring_alone_fills_the_buffer_and_training_alone_empties_it(tmp_path: Path) -> None:
    explored = SingleRun(parse_config(SPLIT + "mode: explore\n", "modes.yaml"), tmp_path / "run").run_to_end()
    assert explored.stage == "done"
    assert explored.version == 0
    rows = sum(len(table) for _, table in SegmentReader(tmp_path / "run" / "experiences").scan())
    assert rows >= 200
    trained = SingleRun(parse_config(SPLIT + "mode: train\n", "modes.yaml"), tmp_path / "run").run_to_end()
    assert trained.stage == "done"
    assert trained.version > 0
    assert trained.metrics["buffer/committed"] > 100


def test_an_asynchronous_run_never_trains_on_rows_that_are_too_old(tmp_path: Path) -> None:
    text = SPLIT.replace("steps: 1000000", "steps: 6000").replace("buffer: {capacity: 200}", "buffer: {reuse: 2}")
    loop = SingleRun(parse_config(text, "modes.yaml", ["train.max_staleness=1"]), tmp_path / "run")
    assert loop.run_to_end().stage == "done"
    lines = list(read_jsonl(tmp_path / "run" / "metrics.jsonl"))
    staleness = [line["train/staleness"] for line in lines if "train/staleness" in line]
    assert staleness
    assert max(staleness) <= 1.0
    assert any(line.get("time/explore_s", 0.0) > 0.0 for line in lines)


def test_a_run_of_so_many_updates_ends_like_one_of_so_many_steps_and_goes_on_with_more(tmp_path: Path) -> None:
    text = SPLIT.replace("steps: 1000000", "updates: 3").replace("schedule: async\n", "")
    ended = SingleRun(
        parse_config(text.replace("buffer: {capacity: 200}\n", ""), "x.yaml"), tmp_path / "run"
    ).run_to_end()
    assert (ended.stage, ended.share_done, ended.version, ended.length) == ("done", 1.0, 3, "update 3/3")
    assert newest_whole(tmp_path / "run" / "checkpoints").state["progress"]["finished"]
    config = parse_config(text.replace("buffer: {capacity: 200}\n", ""), "x.yaml", ["train.updates=5"])
    more = SingleRun(config, tmp_path / "run").run_to_end()
    assert (more.stage, more.version, more.length) == ("done", 5, "update 5/5")
