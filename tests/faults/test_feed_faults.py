"""A run that other runs feed is killed in every stage, and its feeds are damaged: no row is lost, doubled or believed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "sources"))

from feeding import SETTINGS, FakeExplorer, Trainer, rows_in_log
from killing import count_events, describe, finish, kill, start

import ludus
from ludus import SingleRun, parse_config
from ludus.storage.checkpoints import CheckpointStore

FED = (
    SETTINGS
    + """
name: fed
buffer: {feeds: [FEED], sampler: uniform, reuse: 2}
cycle: {new_sequences: 20, updates: 4}
train: {steps: 1000000, batch_episodes: 4, minibatch: 8, epochs: 2}
"""
)
DEADLINE_S = 120.0


def wait_for(holds: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end
        try:
            process.wait(0.02)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError(f"the run ended: {finish(process)}")


def saved_updates(run_dir: Path) -> int:
    folder = run_dir / "checkpoints"
    return max(CheckpointStore(folder, keep=3).list(), default=0) if folder.is_dir() else 0


def outcome(run_dir: Path) -> dict[str, Any]:
    saved = CheckpointStore(run_dir / "checkpoints", keep=3).latest(strict=True)
    assert saved is not None
    cycle = {name: value for name, value in saved.state["cycle"].items() if not name.endswith("_s")}
    exports = sorted(path.name for path in (run_dir / "exports").iterdir())
    made = describe(run_dir)
    return {
        "cycle": cycle,
        "exports": exports,
        "rows": rows_in_log(run_dir),
        "files": made["files"],
        "progress": made["progress"],
    }


def run_unbroken(folder: Path) -> dict[str, Any]:
    explorer = FakeExplorer(folder / "feed")
    explorer.play(10)
    loop = SingleRun(parse_config(FED.replace("FEED", str(folder / "feed")), "fed.yaml"), folder / "run")
    loop.start()
    for rounds, count in ((1, 15), (2, 20)):
        explorer.play(count)
        end = time.monotonic() + DEADLINE_S
        while loop.schedule().cycles < rounds or loop.status().stage != "waiting for data":
            assert not loop.wait(0.02).is_over
            assert time.monotonic() < end
    loop.stop()
    loop.wait(30)
    explorer.close()
    return outcome(folder / "run")


@pytest.mark.slow
def test_a_trainer_that_is_killed_in_every_stage_ends_with_the_same_weights_and_rows(tmp_path: Path) -> None:
    whole = run_unbroken(tmp_path / "whole")
    folder, run_dir, config = tmp_path / "broken", tmp_path / "broken" / "run", tmp_path / "fed.yaml"
    explorer = FakeExplorer(folder / "feed")
    explorer.play(10)
    config.write_text(FED.replace("FEED", str(folder / "feed")))

    process = start(config, run_dir)  # killed while it waits, with rows that no checkpoint knows
    wait_for(lambda: (run_dir / "experiences").is_dir() and len(rows_in_log(run_dir)) == 10, process)
    kill(process)
    explorer.play(15)
    process = start(config, run_dir)  # killed while it trains
    wait_for(lambda: saved_updates(run_dir) >= 1, process)
    kill(process)
    assert saved_updates(run_dir) < 4, "the round was over before the kill: make it longer"
    process = start(config, run_dir)  # killed while it publishes or exports
    wait_for(lambda: saved_updates(run_dir) == 4, process)
    kill(process)
    process = start(config, run_dir)
    wait_for(lambda: count_events(run_dir, "exported") >= 1, process)
    explorer.play(20)
    wait_for(lambda: (run_dir / "exports" / "main-00000002").is_dir(), process)
    process.send_signal(signal.SIGTERM)
    finish(process)
    explorer.close()
    broken = outcome(run_dir)
    for part, expected in whole.items():
        assert broken[part] == expected, part
    assert len(set(broken["rows"])) == 45


def test_damaged_and_missing_segments_of_a_feed_cost_their_own_rows_and_no_others(tmp_path: Path) -> None:
    explorer = FakeExplorer(tmp_path / "a")
    for _ in range(6):
        explorer.play(3)
    files = explorer.segments()
    files[1].write_bytes(files[1].read_bytes()[:-100])
    files[2].write_bytes(b"not a segment at all")
    files[4].unlink()
    (explorer.run.experiences / "000000000099.arrow.part").write_bytes(b"half a copy")
    trainer = Trainer(tmp_path, feeds=("a",))
    trainer.take_all()
    assert [int(episode.rpartition("-")[2]) for _, episode, _ in rows_in_log(trainer.run.path)] == [
        *range(0, 3),
        *range(9, 12),
        *range(15, 18),
    ]
    assert trainer.feeds.metrics == {"buffer/feeds_taken": 9.0, "buffer/feeds_missed": 9.0, "buffer/feeds_damaged": 2.0}
    assert sorted(explorer.segments()) == sorted(set(files) - {files[4]}), "the other run is only read"
    trainer.close()
    explorer.close()


HEADER = """
import json, os, random, signal, sys, time
from pathlib import Path
folder, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
sys.path.insert(0, sys.argv[4])

def run_killed(work, number):
    dice = random.Random(seed * 1000 + number)
    receive, send = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            work(dice, lambda: os.write(send, b"x"))
        finally:
            os._exit(1)
    os.close(send)
    assert os.read(receive, 1), "the child failed"
    time.sleep(dice.uniform(0, 0.05))
    os.kill(pid, signal.SIGKILL)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL, "the child failed"
    os.close(receive)
"""
TAKING = (
    HEADER
    + """
import ludus.sources.feeds
from feeding import FakeExplorer, Trainer, rows_in_log
from ludus.storage.atomic import read_json, sweep_leftovers, write_json
ludus.sources.feeds.MOST_ROWS = 4
STATE = folder / "state.json"

def saved():
    return read_json(STATE) if STATE.exists() else None

def work(dice, begun):
    trainer = Trainer(folder, saved=saved())
    begun()
    while True:
        trainer.feeds.take_in()
        if dice.random() < 0.2:
            write_json(STATE, trainer.state())

played = 0
explorers = [FakeExplorer(folder / name) for name in "ab"]
for number in range(kills):
    for explorer in explorers:
        for _ in range(8):
            played += len(explorer.play(3))
    run_killed(work, number)
trainer = Trainer(folder, saved=saved())
trainer.take_all()
rows = rows_in_log(trainer.run.path)
print(json.dumps({"played": played, "rows": len(rows), "distinct": len(set(rows)), "inserted": trainer.buffer.counters["inserted"]}))
"""
)
EXPORTING = (
    HEADER
    + """
import numpy as np
from feeding import Trainer
from ludus.policies import PolicyStore
from ludus.policies.export import ExportFolder
from ludus.records import PolicyRef
from ludus.storage.atomic import directory_hashes, sweep_leftovers
trainer = Trainer(folder)
store = PolicyStore(folder / "trainer" / "policies")
refs = [PolicyRef.parse(f"main@{number}") for number in range(40)]
for ref in refs:
    store.publish(ref, {"w": np.full(50_000, ref.version, np.float32)}, trainer.context.shape, step=0)
exports = ExportFolder(folder / "exports", keep=3)

def work(dice, begun):
    exports.add(store, refs[-1])
    begun()
    while True:
        for ref in dice.sample(refs, len(refs)):
            exports.add(store, ref)

seen = 0
for number in range(kills):
    run_killed(work, number)
    for path in (folder / "exports").iterdir():
        if path.name.startswith("main-"):
            seen += 1
            ref = PolicyRef.parse("main@" + str(int(path.name.rpartition("-")[2])))
            assert directory_hashes(path) == directory_hashes(store.path(ref)), path
sweep_leftovers(folder)
print(json.dumps({"seen": seen, "left": [p.name for p in (folder / "exports").iterdir() if p.name.startswith(".")]}))
"""
)


def run_script(script: str, folder: Path, kills: int, seed: int) -> dict[str, Any]:
    helpers = str(Path(__file__).parents[1] / "sources")
    environment = {**os.environ, "PYTHONPATH": str(Path(ludus.__file__).parents[1])}
    command = [sys.executable, "-c", script, str(folder), str(kills), str(seed), helpers]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"kills={kills} seed={seed}\n{done.stdout[-500:]}\n{done.stderr[-3000:]}"
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(("kills", "seed"), [(8, 1), pytest.param(100, 2, marks=pytest.mark.slow)])
def test_kills_while_rows_come_in_lose_and_double_none(tmp_path: Path, kills: int, seed: int) -> None:
    found = run_script(TAKING, tmp_path, kills, seed)
    assert found["played"] == found["rows"] == found["distinct"] == found["inserted"] == kills * 48


@pytest.mark.parametrize(("kills", "seed"), [(8, 3), pytest.param(100, 4, marks=pytest.mark.slow)])
def test_an_export_is_whole_or_absent_when_it_is_killed(tmp_path: Path, kills: int, seed: int) -> None:
    found = run_script(EXPORTING, tmp_path, kills, seed)
    assert found["seen"] > 0
    assert found["left"] == []
