"""F1 and F3 for storage: a process is killed with SIGKILL at random moments while it saves.

One clean process forks the children that are killed (a fork is quick, and the test process may hold threads); it
prints a line of JSON for each kill and fails when a promise is broken. The seed is in the command, so a failure can be
repeated.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ludus.storage

COMMON = """
import json, os, random, signal, sys, time
from pathlib import Path
import numpy as np
root, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
rng = random.Random(seed)

def kill_one(work, step_s):
    '''Fork a child that works for ever, kill it; return the last number that it acknowledged.'''
    receive, send = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(receive)
        try:
            work(lambda number: os.write(send, number.to_bytes(8, "little")))
        finally:
            os._exit(1)
    os.close(send)
    first = os.read(receive, 8)            # it is at work now
    assert len(first) == 8, "the child failed"
    time.sleep(rng.uniform(0, 2 * step_s))  # any moment of its work is as likely as any other
    os.kill(pid, signal.SIGKILL)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL, "the child failed"
    acknowledged = [first]
    while chunk := os.read(receive, 8):
        acknowledged.append(chunk)
    os.close(receive)
    return int.from_bytes(acknowledged[-1], "little")

class EarlyStopping(Exception):
    pass

def time_of_a_step(work):
    moments = []
    def acknowledge(number):
        moments.append(time.monotonic())
        if len(moments) > 4:
            raise EarlyStopping
    try:
        work(acknowledge)
    except EarlyStopping:
        return (moments[-1] - moments[0]) / 4
"""

CHECKPOINTS = """
from ludus.storage import CheckpointStore, save_tensors, sweep_leftovers

def work(acknowledge):
    store = CheckpointStore(root / "checkpoints", keep=2)
    found = store.latest()
    update = found.update if found else 0
    while True:
        acknowledge(update)
        update += 1
        staging = store.stage(update)
        for name in ("weights", "optimizer"):
            save_tensors(staging / f"{name}.safetensors", {"w": np.full(1000, update, np.float32)})
        store.commit(staging, update, {"cursor": update})

step_s = time_of_a_step(work)
for _ in range(kills):
    acknowledged = kill_one(work, step_s)
    left_before = len([path for path in (root / "checkpoints").iterdir() if path.name.startswith(".")])
    sweep_leftovers(root)
    store = CheckpointStore(root / "checkpoints", keep=2)
    found = store.latest(strict=True)
    update = found.update
    assert acknowledged <= update <= acknowledged + 1, (acknowledged, update)
    assert found.state == {"cursor": update}
    assert all((found.tensors(name)["w"] == update).all() for name in ("weights", "optimizer"))
    assert all(path.name.isdigit() for path in (root / "checkpoints").iterdir())
    assert update - 1 in store.list()
    print(json.dumps({"update": update, "left": left_before}))
"""

SEGMENTS = """
import pyarrow as pa
from ludus.storage import Catalog, SegmentLog, sweep_leftovers

def rows(tasks):
    return pa.table({"episode": [str(t) for t in tasks], "task": tasks, "attempt": [0] * len(tasks),
                     "seat": [0] * len(tasks), "action": [[t] * 20 for t in tasks]})

def work(acknowledge):
    catalog = Catalog(root / "catalog.sqlite")
    log = SegmentLog(root, "experiences", catalog)
    task = log.next_seq
    acknowledge(task)
    while True:
        log.append(rows(list(range(max(0, task - 2), task + 4))))   # the first ones are repetitions
        log.commit()
        task += 4
        acknowledge(task)
        if task % 5 == 0:
            log.trim(task - 40)

step_s = time_of_a_step(work)
for _ in range(kills):
    acknowledged = kill_one(work, step_s)
    sweep_leftovers(root)
    with Catalog(root / "catalog.sqlite") as catalog:
        log = SegmentLog(root, "experiences", catalog)
        assert not log.recovery.quarantined and not log.recovery.missing, log.recovery
        tasks = [task for _, table in log.scan() for task in table.column("task").to_pylist()]
        assert tasks == list(range(log.next_seq - len(log), log.next_seq)), tasks
        assert acknowledged <= log.next_seq <= acknowledged + 4, (acknowledged, log.next_seq)
        assert len(log.append(rows(list(range(log.next_seq))))) == 0
        assert all(path.suffix == ".arrow" for path in (root / "experiences").iterdir())
        print(json.dumps({"update": log.next_seq, "left": len(log.recovery.adopted) + len(log.recovery.leftovers)}))
"""


def run_kills(tmp_path: Path, script: str, kills: int, seed: int) -> list[dict[str, int]]:
    environment = {**os.environ, "PYTHONPATH": str(Path(ludus.storage.__file__).parents[2])}
    command = [sys.executable, "-c", COMMON + script, str(tmp_path), str(kills), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=240, check=False)
    assert done.returncode == 0, f"seed {seed}\n{done.stderr[-3000:]}"
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_newest_complete_checkpoint_loads_after_each_of_100_kills(tmp_path: Path) -> None:
    kills = run_kills(tmp_path, CHECKPOINTS, kills=100, seed=1)
    assert len(kills) == 100
    assert kills[-1]["update"] > 5, "no progress between the kills"
    assert any(kill["left"] for kill in kills), "the kills did not hit a save"


def test_acknowledged_rows_are_there_once_after_each_of_30_kills(tmp_path: Path) -> None:
    kills = run_kills(tmp_path, SEGMENTS, kills=30, seed=2)
    assert len(kills) == 30
    assert kills[-1]["update"] > 5, "no progress between the kills"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 15))
def test_rows_survive_200_kills(tmp_path: Path, seed: int) -> None:
    assert len(run_kills(tmp_path, SEGMENTS, kills=200, seed=seed)) == 200
