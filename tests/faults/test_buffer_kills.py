"""F3 for the buffer: a process that inserts, trains and checkpoints is killed with SIGKILL, again and again.

One clean process forks the children that are killed; it prints a line of JSON for each kill and fails when a promise is
broken. The seed is in the command, so a failure can be repeated.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ludus.buffer

SCRIPT = """
import json, os, random, signal, sys, time
from pathlib import Path
from ludus.buffer import Buffer
from ludus.config.sections.buffer import BufferConfig
from ludus.storage.atomic import read_json, write_json
from ludus.storage.catalog import Catalog
from ludus.storage.segments import SegmentLog
from ludus.testing.experiences import sample_experiences

root, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
rng = random.Random(seed)
REUSE, ROWS, CHECKPOINT = 2, 6, root / "checkpoint.json"

def open_buffer():
    log = SegmentLog(root, "experiences", Catalog(root / "catalog.sqlite"))
    buffer = Buffer(log, BufferConfig(reuse=REUSE, sampler="uniform", capacity=100_000), batch_rows=4)
    trained = {}
    if CHECKPOINT.exists():
        saved = read_json(CHECKPOINT)
        buffer.load_state(saved["buffer"])
        trained = {int(task): uses for task, uses in saved["trained"].items()}
    return buffer, trained

def work(first, acknowledge):
    buffer, trained = open_buffer()
    saved = [buffer.state()]
    number = first
    while True:
        buffer.insert(sample_experiences([2] * ROWS, tasks=range(number, number + ROWS)))
        number += ROWS
        acknowledge(number)
        for _ in range(rng.randint(1, 3)):
            claim = buffer.claim(0, seed=rng.randrange(10**6))
            if claim is None:
                break
            for task in buffer.read(claim).sequences["task"].tolist():
                trained[task] = trained.get(task, 0) + 1
                assert trained[task] <= REUSE, f"task {task} was trained {trained[task]} times"
            buffer.commit(claim)
        if rng.random() < 0.5:
            saved = [saved[-1], buffer.state()]
            write_json(CHECKPOINT, {"buffer": saved[-1], "trained": trained})
            buffer.trim(saved)

def check(acknowledged):
    buffer, trained = open_buffer()
    live = {}
    for first, count, usage, _ in buffer.state()["live"]:
        tasks = buffer._log.read_experiences(range(first, first + count)).sequences["task"].tolist()
        assert len(tasks) == count
        for task in tasks:
            assert task not in live, f"task {task} is there twice"
            live[task] = usage
    for task in range(acknowledged):
        if trained.get(task, 0) < REUSE:
            assert live.get(task) == trained.get(task, 0), f"acknowledged task {task} is gone or miscounted"
        else:
            assert task not in live, f"task {task} has no uses left but is there"
    return len(live)

acknowledged = 0
for kill in range(kills):
    receive, send = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(receive)
        rng.seed(seed * 1000 + kill)
        try:
            work(max(acknowledged - ROWS, 0), lambda number: os.write(send, number.to_bytes(8, "little")))
        finally:
            os._exit(1)
    os.close(send)
    first = os.read(receive, 8)
    assert len(first) == 8, "the child failed"
    time.sleep(rng.uniform(0, 0.05))
    os.kill(pid, signal.SIGKILL)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL, "the child failed"
    numbers = [first]
    while chunk := os.read(receive, 8):
        numbers.append(chunk)
    os.close(receive)
    acknowledged = max(acknowledged, int.from_bytes(numbers[-1], "little"))
    checker = os.fork()
    if checker == 0:
        status = 1
        try:
            print(json.dumps({"kill": kill, "acknowledged": acknowledged, "live": check(acknowledged)}), flush=True)
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(checker, 0)[1] == 0, "a promise was broken"
"""


@pytest.mark.parametrize(("kills", "seed"), [(12, 1), pytest.param(100, 2, marks=pytest.mark.slow)])
def test_no_experience_is_lost_or_doubled_or_overtrained_by_kills(tmp_path: Path, kills: int, seed: int) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(ludus.buffer.__file__).parents[2])}
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), str(kills), str(seed)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"kills={kills} seed={seed}\n{done.stdout[-500:]}\n{done.stderr[-3000:]}"
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(reports) == kills
    assert reports[-1]["acknowledged"] > kills
