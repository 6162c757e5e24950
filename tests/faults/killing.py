"""Run `ludus` as a user does, kill it or its workers at chosen moments, and describe exactly what is in a run directory."""

import hashlib
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from ludus.storage.checkpoints import CheckpointStore
from ludus.storage.jsonl import read_jsonl
from ludus.storage.segment_reader import SegmentReader

START_DEADLINE_S = 120.0
RUN_DEADLINE_S = 300.0
UPDATES_LATER = 2
"""Updates between a moment's event and its kill, at most."""
EVALUATION = 2**40
"""Tasks from this number on are evaluation games."""

RUN = ""
EXPLORER, TRAINER, RANK = "ludus.explore.worker", "ludus.train.worker", "ludus.train.rank_worker"
HELPER, WARM_START = "ludus.train.parallel_helper", "ludus.ingest.warm_start_worker"
"""Whom to kill: the whole run, or one process that runs this module."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When to kill whom: after so many more events of a kind, and a little later."""

    who: str = RUN
    event: str = "published"
    more: int = 1
    within_s: float = 0.3
    """The little, at most; how much of it is drawn."""


def start(config: Path, run_dir: Path, *overrides: str, within: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Start `ludus run` in a process group of its own, by a command that becomes it if one is given."""
    command = [*within, sys.executable, "-m", "ludus.cli.app", "run", str(config), *overrides]
    return subprocess.Popen(
        [*command, "--run-dir", str(run_dir), "--quiet"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[bytes], deadline_s: float = RUN_DEADLINE_S) -> tuple[int, str]:
    """Wait for the end; returns exit code and what was said on stderr."""
    try:
        _, error = process.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        kill(process)
        raise
    return process.returncode, error.decode(errors="replace")


def kill(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL the process alone: its workers must notice by themselves."""
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)


def kill_worker(process: subprocess.Popen[bytes], module: str) -> int:
    """SIGKILL one process of the run that runs `module`; returns its id."""
    end = time.monotonic() + START_DEADLINE_S
    while not (found := workers(process.pid, module)):
        assert time.monotonic() < end, f"no process runs {module}"
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
    os.kill(found[0], signal.SIGKILL)
    return found[0]


def workers(pid: int, module: str) -> list[int]:
    """The live processes below `pid` that run `module`."""
    return [below for below in descendants(pid) if not is_gone(below) and module.encode() in command_line(below)]


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def descendants(pid: int) -> list[int]:
    listing = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = [tuple(map(int, line.split())) for line in listing.splitlines()]
    found, todo = [], [pid]
    while todo:
        parent = todo.pop()
        below = [child for child, above in pairs if above == parent]
        found += below
        todo += below
    return found


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_until(holds: Callable[[], bool], deadline_s: float) -> bool:
    end = time.monotonic() + deadline_s
    while not holds() and time.monotonic() < end:
        os.sched_yield()
    return holds()


def count_events(run_dir: Path, kind: str) -> int:
    path = run_dir / "events.jsonl"
    return sum(event.get("event") == kind for event in read_jsonl(path)) if path.exists() else 0


def wait_for_event(
    process: subprocess.Popen[bytes], run_dir: Path, kind: str, number: int, deadline_s: float = START_DEADLINE_S
) -> bool:
    """Wait until the n-th event of a kind is in the log; False when the process ended first."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        if count_events(run_dir, kind) >= number:
            return True
        try:
            process.wait(0.02)
        except subprocess.TimeoutExpired:
            continue
        return False
    kill(process)
    raise AssertionError(f"no event {kind!r} within {deadline_s} s")


def run_with_kills(config: Path, run_dir: Path, *, kills: int, longest_s: float, seed: int) -> int:
    """Run to the end, killing up to `kills` times at random moments after a start; returns how many kills happened."""
    dice = random.Random(seed)
    done = 0
    while done < kills:
        starts = count_events(run_dir, "started")
        process = start(config, run_dir)
        if wait_for_event(process, run_dir, "started", starts + 1):
            try:
                process.wait(dice.uniform(0.0, longest_s))
            except subprocess.TimeoutExpired:
                kill(process)
                done += 1
                continue
        code, error = finish(process)
        assert code == 0, error
        return done
    code, error = finish(start(config, run_dir))
    assert code == 0, error
    return done


def run_through(config: Path, run_dir: Path, moments: Sequence[Moment], *, seed: int) -> None:
    """Run to the end in spite of a kill at each of these moments; what was killed whole is started again.

    Every episode that was acknowledged before a kill must be there in the end as it was. A run that ends before its
    last moments is fine if half of the kills happened: how many updates fit between two of them is up to the machine.
    """
    dice = random.Random(seed)
    acknowledged: dict[str, tuple[Any, ...]] = {}
    goal = 0
    process = start(config, run_dir)
    for happened, moment in enumerate(moments):
        goal = (count_events(run_dir, moment.event) if goal else 0) + moment.more
        if not _await_moment(process, run_dir, moment, goal, dice.random()):
            assert 2 * happened >= len(moments), f"the run ended before {moment}; make it longer: {finish(process)}"
            break
        if moment.who == RUN:
            kill(process)
            acknowledged |= episodes(run_dir)
            process = start(config, run_dir)
        else:
            kill_worker(process, moment.who)
    code, error = finish(process)
    assert code == 0, error
    assert acknowledged.items() <= episodes(run_dir).items(), "an acknowledged episode is gone, or another one"


def _await_moment(process: subprocess.Popen[bytes], run_dir: Path, moment: Moment, goal: int, share: float) -> bool:
    """Wait for a moment, and for a share of the little that it adds; False when the run ended first."""
    if not wait_for_event(process, run_dir, moment.event, goal):
        return False
    try:
        process.wait(share * min(moment.within_s, UPDATES_LATER * _update_s(run_dir)))
    except subprocess.TimeoutExpired:
        return True
    return False


def _update_s(run_dir: Path) -> float:
    """Typical seconds between two versions so far; a kill that is drawn in seconds alone overtakes a fast run."""
    events = read_jsonl(run_dir / "events.jsonl")
    published = [event["time"] for event in events if event.get("event") == "published"]
    gaps = [later - earlier for earlier, later in pairwise(published)]
    return median(gaps) if len(gaps) > 1 else math.inf


def describe(run_dir: Path) -> dict[str, Any]:
    """What must be equal between a broken and an unbroken synchronous run."""
    checkpoint = CheckpointStore(run_dir / "checkpoints", keep=2).latest(strict=True)
    assert checkpoint is not None
    files = {path.name: _sha256(path) for path in sorted(checkpoint.path.glob("*.safetensors"))}
    return {
        "files": files,
        "progress": checkpoint.state["progress"],
        "league": checkpoint.state["league"],
        "episodes": episodes(run_dir),
    }


def episodes(run_dir: Path) -> dict[str, tuple[Any, ...]]:
    """Every recorded episode by id: what was played and what came of it."""
    found: dict[str, tuple[Any, ...]] = {}
    for _, table in SegmentReader(run_dir / "episodes").scan() if (run_dir / "episodes").is_dir() else ():
        for row in table.to_pylist():
            assert row["id"] not in found, "an episode is there twice"
            found[row["id"]] = (row["task"], row["policies"], row["versions"], row["returns"], row["move_actions"])
    return found


def training_tasks(run_dir: Path) -> list[int]:
    """The tasks of the recorded training episodes, in order."""
    return sorted(row[0] for row in episodes(run_dir).values() if row[0] < EVALUATION)


def check_nothing_is_doubled(run_dir: Path, *, unacknowledged: int = 0) -> None:
    """No episode, sequence or version is there twice.

    Between the commit of the rows and that of their episodes a kill can leave rows whose episode was never
    acknowledged: at most so many.
    """
    tasks = training_tasks(run_dir)
    assert len(set(tasks)) == len(tasks), "a task was recorded twice"
    rows = [
        (row["episode"], row["seat"])
        for _, table in SegmentReader(run_dir / "experiences").scan()
        for row in table.select(["episode", "seat"]).to_pylist()
    ]
    assert len(set(rows)) == len(rows), "a sequence is in the log twice"
    assert len({episode for episode, _ in rows} - set(episodes(run_dir))) <= unacknowledged
    versions = [event["policy"] for event in read_jsonl(run_dir / "events.jsonl") if event["event"] == "published"]
    assert len(set(versions)) == len(versions), "a version was trained twice"


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
